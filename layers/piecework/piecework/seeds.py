"""Knowledge seeds, under the public name: see `piecework.extend.seeds`."""

from piecework.extend.seeds import DEFAULT_PROFILE, EXACT, hits, reusable_answer

__all__ = ["DEFAULT_PROFILE", "EXACT", "hits", "reusable_answer"]
