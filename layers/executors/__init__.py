"""Your executors: each module here registers one or more; what it imports goes into requirements.in beside it."""
