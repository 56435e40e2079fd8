"""Your executors: each module here registers one or more; list its packages in requirements.in beside it."""
