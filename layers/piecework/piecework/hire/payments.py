"""What a contract costs, how a 402 says so, and what a payment header must hold (worker specification 2.1 to 2.7).

    terms = PaymentTerms.of(contract, max_duration_ms, public_base_url, settle_before=False)
    raise payment_required(terms)                       # a WorkerError that carries the 402's headers and body members
    payment = parse_payment(request, v1=True)           # Payment | None; L1, raises PAYMENT_MALFORMED or PAYMENT_INVALID
    check_payment(payment, terms, contract, now_ms)     # L2 to L7, raises PaymentInvalid or CONTRACT_MISMATCH
    claim_key(payment.authorization, network)           # L8 is the claim on this key
    covers_an_attempt(payment.authorization, terms, now_ms)
    payment_required(terms, code=…, message=…, reason=…, v1=…, receipt=…, members=…) -> Demand(headers, body)
    receipt_headers(payment.version, receipt)           # PAYMENT-RESPONSE or X-PAYMENT-RESPONSE

Amounts are whole units of the token. What a payment holds is a bearer secret: it is in no `repr` and no message.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from piecework.errors import BadRequest
from piecework.hire.errors import WorkerError
from piecework.hire.networks import Network
from piecework.hire.terms import PaymentTerms
from piecework.http import Request
from piecework.jsons import Json, canonical, check_depth, loads
