"""Lists of the kernel table's rows: a page each, by a bounded number of requests."""
