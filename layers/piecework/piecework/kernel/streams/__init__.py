"""The three kinds of stream, and whether their connections live."""
