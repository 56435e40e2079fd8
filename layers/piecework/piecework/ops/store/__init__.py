"""What the operator's door reads and writes in tables and buckets."""
