"""The console: what a browser gets of it."""
