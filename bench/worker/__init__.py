"""What a hired task costs: requests, and the time of a paid one."""
