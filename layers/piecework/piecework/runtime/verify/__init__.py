"""POST /verify, its policies and the check of evidence."""
