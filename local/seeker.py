"""Hires over HTTP with the stock Python x402 client; runs under the interpreter of that client's environment.

Reads an order as JSON from standard input: `url`, `headers`, `body`, `key` (of the paying wallet), `cap` (per payment),
`times`. Writes `answers` (status, headers, body) and `signed`, the number of signed payments.
"""

import json
import sys
from typing import Any

import requests
from eth_account import Account
from x402 import x402ClientSync
from x402.http.clients.requests import wrapRequestsWithPayment
from x402.mechanisms.evm.exact import register_exact_evm_client

SECONDS = 60


def main() -> None:
    """Make the calls of one order."""
    order = json.load(sys.stdin)
    payments: list[Any] = []
    client = x402ClientSync()
    register_exact_evm_client(client, Account.from_key(order["key"]))
    client.set_spend_controls({"max_amount_per_payment": order["cap"]})  # stock clients stop at 1 USD by default
    client.on_after_payment_creation(payments.append)
    with wrapRequestsWithPayment(requests.Session(), client) as http:
        answers = [
            http.post(order["url"], json=order["body"], headers=order["headers"], timeout=SECONDS)
            for _ in range(order["times"])
        ]
    seen = [{"status": got.status_code, "headers": dict(got.headers), "body": got.json()} for got in answers]
    json.dump({"answers": seen, "signed": len(payments)}, sys.stdout)


if __name__ == "__main__":
    main()
