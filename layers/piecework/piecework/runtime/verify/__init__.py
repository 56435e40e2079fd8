"""POST /verify, its policies and the look at evidence."""
