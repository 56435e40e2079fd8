"""Conformance cases of the runtime protocol that can be checked over HTTP, against any deployment."""
