"""What a piece costs at the runtime door: processor time of warm calls, and requests."""
