"""A seeker with the stock Python client of x402 2.x; runs in an environment of its own.

Reads one order as JSON from standard input, makes its calls, writes what it saw as JSON.
"""

import asyncio
import json
import sys
from typing import Any

import requests
from eth_account import Account
from x402 import x402Client, x402ClientSync
from x402.http.clients.httpx import x402HttpxClient
from x402.http.clients.requests import wrapRequestsWithPayment
from x402.mechanisms.evm.exact import register_exact_evm_client

SECONDS = 60


def prepared(client: Any, order: dict[str, Any], signed: list[str]) -> Any:
    """The client with the wallet, its cap, and a count of what it signs."""
    register_exact_evm_client(client, Account.from_key(order["key"]))
    if order["cap"]:
        client.set_spend_controls({"max_amount_per_payment": order["cap"]})
    client.on_after_payment_creation(lambda seen: signed.append(seen.payment_payload.payload["authorization"]["nonce"]))
    return client


def saw(response: Any) -> dict[str, Any]:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return {"status": response.status_code, "headers": headers, "body": response.text}


def failed(error: Exception) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}"}


async def by_httpx(order: dict[str, Any], signed: list[str]) -> list[dict[str, Any]]:
    answers = []
    async with x402HttpxClient(prepared(x402Client(), order, signed), timeout=SECONDS) as http:
        for _ in range(order["times"]):
            try:
                answer = await http.request(order["method"], order["url"], json=order["body"], headers=order["headers"])
                answers.append(saw(answer))
            except Exception as error:  # noqa: BLE001  # whatever it raised is what it did
                answers.append(failed(error))
    return answers


def by_requests(order: dict[str, Any], signed: list[str]) -> list[dict[str, Any]]:
    answers = []
    with wrapRequestsWithPayment(requests.Session(), prepared(x402ClientSync(), order, signed)) as http:
        for _ in range(order["times"]):
            try:
                answer = http.request(
                    order["method"], order["url"], json=order["body"], headers=order["headers"], timeout=SECONDS
                )
                answers.append(saw(answer))
            except Exception as error:  # noqa: BLE001  # whatever it raised is what it did
                answers.append(failed(error))
    return answers


def main() -> None:
    order = json.load(sys.stdin)
    signed: list[str] = []
    answers = asyncio.run(by_httpx(order, signed)) if order["client"] == "httpx" else by_requests(order, signed)
    json.dump({"answers": answers, "signed": signed}, sys.stdout)


if __name__ == "__main__":
    main()
