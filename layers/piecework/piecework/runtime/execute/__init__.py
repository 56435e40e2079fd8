"""POST /execute."""
