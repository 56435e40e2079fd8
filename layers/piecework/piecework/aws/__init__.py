"""Adapters: one module per table, bucket or secret; nothing else touches boto3."""
