"""The limits of a contract without an evidence policy (runtime specification 2.3)."""

from typing import Final

INLINE_EVIDENCE_BYTES: Final = 65_536  # the only value the kernel accepts in a contract
MIMES: Final = ("application/json", "text/plain", "text/markdown", "text/csv")
