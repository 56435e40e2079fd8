"""A seeker with the stock Python client of x402 1.0.0; runs in an environment of its own, as `python_v2` does."""

import asyncio
import base64
import json
import sys
from typing import Any

from eth_account import Account
from x402.clients.httpx import x402HttpxClient

SECONDS = 60


async def call(order: dict[str, Any], account: Any, signed: list[str]) -> dict[str, Any]:
    """One call with a client of its own: version 1 remembers in the client that it has paid."""
    try:
        async with x402HttpxClient(account=account, timeout=SECONDS) as http:
            answer = await http.request(order["method"], order["url"], json=order["body"], headers=order["headers"])
            payment = answer.request.headers.get("x-payment")
            if payment:
                signed.append(json.loads(base64.b64decode(payment))["payload"]["authorization"]["nonce"])
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return {"status": answer.status_code, "headers": headers, "body": answer.text}
    except Exception as error:  # noqa: BLE001  # whatever it raised is what it did
        return {"error": f"{type(error).__name__}: {error}"}


async def main() -> None:
    order = json.load(sys.stdin)
    account, signed = Account.from_key(order["key"]), []
    answers = [await call(order, account, signed) for _ in range(order["times"])]
    json.dump({"answers": answers, "signed": signed}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
