"""Baseline (c): FastAPI under the x402 SDK's own payment middleware: verify, work, settle; it keeps nothing.

Runs with the interpreter of the stock clients' environment: `python x402_fastapi.py PORT FACILITATOR_URL PAY_TO PRICE`.
"""
import sys

import uvicorn
from fastapi import FastAPI, Request
from x402 import x402ResourceServer
from x402.http import HTTPFacilitatorClient
from x402.http.facilitator_client import FacilitatorConfig
from x402.http.middleware.fastapi import payment_middleware
from x402.http.types import PaymentOption, RouteConfig
from x402.mechanisms.evm.exact.register import register_exact_evm_server

NETWORK = "eip155:8453"
PORT, FACILITATOR_URL, PAY_TO, PRICE = sys.argv[1:]

app = FastAPI()
seller = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=FACILITATOR_URL)))
register_exact_evm_server(seller, NETWORK)
option = PaymentOption(scheme="exact", pay_to=PAY_TO, price=f"${PRICE}", network=NETWORK, max_timeout_seconds=900)
paid = payment_middleware({"POST /execute": RouteConfig(accepts=option)}, seller)


@app.middleware("http")
async def payments(request: Request, call_next):
    return await paid(request, call_next)


@app.get("/health")
async def health() -> dict:
    return {"status": "ok"}


@app.post("/execute")
async def execute(request: Request) -> dict:
    task = await request.json()
    return {"status": "completed", "output": {"type": "json", "content": {"answer": f"default::{task['brief']}", "confidence": 0.93}}}


uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="warning", access_log=False)
