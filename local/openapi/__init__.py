"""The OpenAPI documents of the doors, made from the code."""
