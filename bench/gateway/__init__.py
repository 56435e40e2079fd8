"""What the local gateway costs, and what it takes."""
