"""Adapters: one module per table, bucket or secret; nothing else speaks to AWS."""
