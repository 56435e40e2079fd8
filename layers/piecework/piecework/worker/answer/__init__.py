"""What a seeker is answered: bodies, outputs, deliverables, failures."""
