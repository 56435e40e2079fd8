"""Asking language models: the port, the prompt, reading answers, and one adapter that needs no AWS."""
