"""Builds what is deployed: layers from locked wheels, byte code that Lambda can use, and a check of both."""
