"""POST /agent-events."""
