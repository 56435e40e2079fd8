"""What an execution is: its events, its state, and what a command changes."""
