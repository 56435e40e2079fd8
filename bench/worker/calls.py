"""Counts the requests of a paid short task: `python -m bench.worker.calls OUT`.

The handlers of the worker door run in this process, over the endpoint in AWS_ENDPOINT_URL and a stub facilitator. Each
task is requested without payment, paid and done, requested again, and polled. The first task makes the clients and asks
the facilitator what it settles; the last one is counted. The times are those of the paid request's handler, and of its
waits for AWS.
"""

import importlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from bench.runtime.fakes import Context
from bench.sent import Sent
from bench.worker.hiring import SEEKER_KEY, TASK, facilitator, payment, variables
from local.demo_hire import signed_contract
from local.facilitator.server import StubFacilitator
from piecework.jsons import Json

PUBLIC_URL: Final = "https://worker.example.com"
ROUNDS: Final = 15


class Task(NamedTuple):
    """The requests of each step of one task, its files, and milliseconds of the paid step: in total, and for AWS."""

    steps: Mapping[str, Counter[str]]
    files: int
    took: float
    waited: float


class Worker:
    """The handlers of a paid task."""

    def __init__(self) -> None:
        self._hire, self._contracts = (
            importlib.import_module(f"worker.{name}.app").handler for name in ("hire", "contracts")
        )

    def register(self) -> str:
        """A contract's id."""
        contract = signed_contract(SEEKER_KEY)
        told(self._contracts(event("POST", "/contracts", {}, {"contract": contract}), Context()), 201)
        return str(contract["contract_id"])

    def execute(self, contract_id: str, status: int, **headers: str) -> dict[str, Json]:
        """The answer to POST /execute."""
        sent = {"X-Contract-ID": contract_id, **headers}
        return told(self._hire(event("POST", "/execute", sent, TASK), Context()), status)

    def poll(self, contract_id: str, task_id: str) -> None:
        """GET /tasks/{task_id}."""
        asked = event("GET", "/tasks/{task_id}", {"X-Contract-ID": contract_id}, None)
        path = {"path": f"/tasks/{task_id}", "pathParameters": {"task_id": task_id}}
        told(self._hire({**asked, **path}, Context()), 200)


def measure(rounds: int = ROUNDS) -> dict[str, Json]:
    """Requests by step, as figures of the report; the last task's."""
    with facilitator() as stub:
        os.environ |= variables("HireFunction", PUBLIC_URL, stub.url)
        sent, worker = Sent(), Worker()
        hired(worker, stub, sent)
        tasks = [hired(worker, stub, sent) for _ in range(rounds)]
    steps, paid = tasks[-1].steps, tasks[-1].steps["paid"]
    return {
        "paid_task_dynamodb_calls": paid["dynamodb"],
        "paid_task_s3_put_calls": paid["s3 PUT"],
        "paid_task_s3_other_calls": paid["s3"] - paid["s3 PUT"],
        "paid_task_sqs_calls": paid["sqs"],
        "paid_task_facilitator_calls": paid["facilitator"],
        "paid_task_files": tasks[-1].files,
        "unpaid_ask_dynamodb_calls": steps["asked"]["dynamodb"],
        "paid_repeat_dynamodb_calls": steps["repeated"]["dynamodb"],
        "paid_poll_dynamodb_calls": steps["polled"]["dynamodb"],
        "paid_handler_ms": [task.took for task in tasks],
        "paid_handler_aws_ms": [task.waited for task in tasks],
    }


def hired(worker: Worker, stub: StubFacilitator, sent: Sent) -> Task:
    """One task from its contract to its poll."""
    steps: dict[str, Counter[str]] = {}
    contract_id = worker.register()
    sent.take()
    asked = worker.execute(contract_id, 402)
    steps["asked"] = sent.take()
    signature = payment(asked["headers"]["PAYMENT-REQUIRED"])
    stub.calls.clear()
    began, waited = time.perf_counter(), sent.waited
    answer = worker.execute(contract_id, 200, **{"PAYMENT-SIGNATURE": signature})
    took, waited = (time.perf_counter() - began) * 1000, (sent.waited - waited) * 1000
    body = json.loads(answer["body"])
    steps["paid"] = sent.take() + Counter(facilitator=len(stub.calls))
    worker.execute(contract_id, 200)
    steps["repeated"] = sent.take()
    worker.poll(contract_id, body["task_id"])
    steps["polled"] = sent.take()
    return Task(steps, len(body["deliverables"]), took, waited)


def event(method: str, resource: str, headers: Mapping[str, str], body: object) -> dict[str, Json]:
    """A proxy event with the members that the door reads."""
    many = {"Content-Type": ["application/json"]} | {name: [value] for name, value in headers.items()}
    return {
        "httpMethod": method,
        "resource": resource,
        "path": resource,
        "multiValueHeaders": many,
        "requestContext": {"identity": {"sourceIp": "192.0.2.10"}},
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }


def told(answer: dict[str, Json], status: int) -> dict[str, Json]:
    """The answer, if it has the expected status."""
    if answer["statusCode"] != status:
        raise SystemExit(f"answered {answer['statusCode']} and not {status}: {answer['body'][:500]}")
    return answer


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measure()), "utf-8")
