"""Piecework: one executor behind three protocol doors."""

__version__ = "0.1.0"
