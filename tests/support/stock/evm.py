"""The stock facilitator over a real EVM, as an HTTP server in an environment of its own.

Beside `/supported`, `/verify` and `/settle` it serves `/rpc` (four reading methods) and `/control`: GET gives the
number of calls, PUT takes `mint`, `burn` ({address: units}), `cancel` ([payer, nonce]), `settle` (`ok`, or `lost`: the
money moves and no answer comes) and answers the balances of `balances`. Prints its URL when it listens.
"""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import vyper
from eth_account import Account
from eth_tester import EthereumTester, PyEVMBackend
from eth_utils import to_canonical_address
from web3 import Web3
from web3.providers.eth_tester import EthereumTesterProvider
from x402 import x402FacilitatorSync
from x402.mechanisms.evm import FacilitatorWeb3Signer
from x402.mechanisms.evm.exact import register_exact_evm_facilitator
from x402.schemas import PaymentPayload, PaymentRequirements
from x402.schemas.v1 import PaymentPayloadV1, PaymentRequirementsV1

TOKENS = {
    "base": (8453, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin"),
    "base-sepolia": (84532, "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC"),
}
FACILITATOR_KEY = "0x" + "44" * 32
WEI = 10**20
LOST_SECONDS = 60


def a_chain(network: str) -> tuple[Web3, Any]:
    """A chain with this network's id and its USDC at its real address."""
    chain_id, address, name = TOKENS[network]
    source = Path(__file__).with_name("token.vy").read_text("utf-8").replace("@NAME@", name)
    compiled = vyper.compile_code(source, output_formats=["bytecode_runtime", "abi"])
    genesis = PyEVMBackend.generate_genesis_state(num_accounts=3)
    code = bytes.fromhex(compiled["bytecode_runtime"].removeprefix("0x"))
    genesis[to_canonical_address(address)] = {"balance": 0, "nonce": 0, "code": code, "storage": {}}
    wallet = to_canonical_address(Account.from_key(FACILITATOR_KEY).address)
    genesis[wallet] = {"balance": WEI, "nonce": 0, "code": b"", "storage": {}}
    backend = PyEVMBackend(genesis_state=genesis)
    type(backend.chain).chain_id = chain_id
    web3 = Web3(EthereumTesterProvider(EthereumTester(backend)))
    return web3, web3.eth.contract(address=address, abi=compiled["abi"])


class Stack:
    """One chain, its token and its facilitator; one thing happens at a time."""

    def __init__(self, network: str) -> None:
        self.web3, self.token = a_chain(network)
        chain_id, self.address, _ = TOKENS[network]
        signer = FacilitatorWeb3Signer(FACILITATOR_KEY, "http://127.0.0.1:1")
        signer._w3 = self.web3
        signer._chain_id = chain_id
        self.facilitator = x402FacilitatorSync()
        register_exact_evm_facilitator(self.facilitator, signer, networks=f"eip155:{chain_id}")
        self.lock = threading.Lock()
        self.calls = {"verify": 0, "settle": 0}
        self.word = "ok"

    def ask(self, call: str, question: dict[str, Any]) -> dict[str, Any]:
        kinds = {2: (PaymentPayload, PaymentRequirements), 1: (PaymentPayloadV1, PaymentRequirementsV1)}
        payload, requirements = kinds[question["x402Version"]]
        self.calls[call] += 1
        answer = getattr(self.facilitator, call)(
            payload.model_validate(question["paymentPayload"]),
            requirements.model_validate(question["paymentRequirements"]),
        )
        return answer.model_dump(by_alias=True, exclude_none=True)

    def supported(self) -> dict[str, Any]:
        return self.facilitator.get_supported().model_dump(by_alias=True, exclude_none=True)

    def control(self, wanted: dict[str, Any]) -> dict[str, Any]:
        sender = {"from": self.web3.eth.accounts[0]}
        for name in ("mint", "burn"):
            for owner, value in wanted.get(name, {}).items():
                self.token.get_function_by_name(name)(owner, int(value)).transact(sender)
        if "cancel" in wanted:
            payer, nonce = wanted["cancel"]
            self.token.functions.cancel(payer, bytes.fromhex(nonce[2:])).transact(sender)
        self.word = wanted.get("settle", self.word)
        balances = {owner: self.token.functions.balanceOf(owner).call() for owner in wanted.get("balances", ())}
        return {"balances": balances, "separator": "0x" + self.token.functions.DOMAIN_SEPARATOR().call().hex()}

    def rpc(self, question: dict[str, Any]) -> dict[str, Any]:
        method, params = question["method"], question["params"]
        answers = {
            "eth_getBlockByNumber": self._block,
            "eth_getTransactionReceipt": self._receipt,
            "eth_call": self._call,
            "eth_getLogs": self._logs,
        }
        return {"jsonrpc": "2.0", "id": question["id"], "result": answers[method](*params)}

    def _block(self, number: str, _: bool) -> dict[str, str]:
        block = self.web3.eth.get_block(number)
        return {"number": hex(block["number"]), "timestamp": hex(block["timestamp"])}

    def _receipt(self, transaction: str) -> dict[str, Any] | None:
        try:
            receipt = self.web3.eth.get_transaction_receipt(transaction)
        except Exception:  # noqa: BLE001  # unknown to the node, in whatever words it says so
            return None
        logs = [_log(log) for log in receipt["logs"]]
        numbers = {name: hex(receipt[name]) for name in ("blockNumber", "transactionIndex", "status")}
        return {**numbers, "logs": logs}

    def _call(self, call: dict[str, str], block: str) -> str:
        return "0x" + bytes(self.web3.eth.call({"to": call["to"], "data": call["data"]}, int(block, 16))).hex()

    def _logs(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        found = self.web3.eth.get_logs({"address": wanted["address"], "fromBlock": first, "toBlock": last})
        topics = [topic if isinstance(topic, list) else [topic] for topic in wanted["topics"]]
        logs = [_log(log) for log in found]
        return [log for log in logs if all(a in b for a, b in zip(log["topics"], topics, strict=False))]


def _log(log: Any) -> dict[str, Any]:
    return {
        "address": log["address"],
        "topics": [_hex(topic) for topic in log["topics"]],
        "data": _hex(log["data"]),
        "transactionHash": _hex(log["transactionHash"]),
    }


def _hex(value: Any) -> str:
    return "0x" + bytes(value).hex()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # a storm of callers


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stack: Stack

    def do_GET(self) -> None:
        with self.stack.lock:
            self._send(200, self.stack.supported() if self.path == "/supported" else self.stack.calls)

    def do_PUT(self) -> None:
        with self.stack.lock:
            self._send(200, self.stack.control(self._body()))

    def do_POST(self) -> None:
        question = self._body()
        with self.stack.lock:
            call = self.path.strip("/")
            answer = self.stack.rpc(question) if call == "rpc" else self.stack.ask(call, question)
        if call == "settle" and self.stack.word == "lost":
            time.sleep(LOST_SECONDS)
            return
        self._send(200, answer)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _send(self, status: int, document: Any) -> None:
        raw = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", choices=TOKENS, default="base")
    Handler.stack = Stack(parser.parse_args().network)
    server = Server(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
