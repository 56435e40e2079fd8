"""Forgetting on request: what a piece or a contract was about goes, and who asked for that, when and why stays."""
