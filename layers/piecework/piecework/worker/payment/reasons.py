"""The reasons that a facilitator gives: those that say that nothing was broadcast, and those that leave it open."""

import re
from typing import Final

from piecework.jsons import Json

WORD: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")  # a reason reaches bodies and logs, so it must be a word
UNNAMED: Final = "unnamed_reason"
TROUBLE: Final = "unexpected_"  # the facilitator's own failure: `unexpected_verify_error` is not a verdict

REFUSES_US: Final = frozenset({401, 403, 407, 408, 429})  # our credentials, or how often and how slowly we ask

# Reasons that say the transfer was refused before anything was broadcast.
DEFINITE: Final = frozenset(
    {
        "insufficient_funds",
        "invalid_exact_evm_insufficient_balance",
        "invalid_exact_evm_payload_signature",
        "invalid_scheme",
        "unsupported_scheme",
        "invalid_network",
        "network_mismatch",
        "invalid_payload",
        "invalid_payment_requirements",
        "invalid_x402_version",
        "missing_eip712_domain",
        "asset_not_deployed_contract",
    }
)
DEFINITE_ENDINGS: Final = (
    "_authorization_valid_before",
    "_authorization_valid_after",
    "_value_mismatch",
    "_recipient_mismatch",
    "_token_name_mismatch",
    "_token_version_mismatch",
    "_address_kyt",
)
NONCE_USED: Final = "_nonce_already_used"
# Found by simulating the transfer, in which a token checks the nonce before the balance: the nonce was unused.
FUNDS_MISSING_NONCE_UNUSED: Final = "invalid_exact_evm_insufficient_balance"


def read_reason(value: Json) -> str:
    """A facilitator's reason as one word."""
    return value if isinstance(value, str) and WORD.fullmatch(value) else UNNAMED


def is_definite(reason: str) -> bool:
    """Whether a reason says that nothing was broadcast."""
    return reason in DEFINITE or (reason.startswith("invalid_exact_evm_") and reason.endswith(DEFINITE_ENDINGS))


def is_verdict(reason: str, status: int) -> bool:
    """Whether a reason beside `isValid: false` speaks of the payment, not of the facilitator's own trouble.

    With a status of 500 or more, or one that refuses the caller, only the known reasons do: whatever else stands there
    is a failure's text.
    """
    if reason.startswith(TROUBLE):
        return False
    is_about_us = status >= 500 or status in REFUSES_US
    return not is_about_us or is_definite(reason) or reason.endswith(NONCE_USED)
