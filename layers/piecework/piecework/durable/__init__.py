"""State that outlives a process: pieces, their steps, leases, due times and evidence."""
