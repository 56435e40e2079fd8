"""The driven gateway, for every test here."""

from tests.iam.driving import driven

__all__ = ["driven"]
