"""Builders for verification: requests with defaults, and the hashes that kernels send."""

import hashlib
import importlib
import json
import os
import sys
from abc import ABC, abstractmethod
from typing import Any
from unittest import mock

from piecework.runtime.verify.flow import VerifyRequest
from piecework.runtime.verify.messages import read_request

Json = Any

SCHEMA_ONLY = "vp.schema_only.v1"
THRESHOLDS = "vp.schema_thresholds.v1"
CROSSCHECK = "vp.crosscheck.v1"
KERNEL_HASHES = {
    SCHEMA_ONLY: "a52d250d216f425973eb5a13c392d4dbc172357181b683e86caa4a5c64db94a7",
    THRESHOLDS: "052312b5f56ed81a7c6f693d5d24fde5dc42825ecc61c6f77bccf07c444c4edf",
    CROSSCHECK: "236ef6d386d272715034acda035ae212c85a87dd6a09958e781c5d0b6880846d",
}
ABSENT: Any = object()


def a_reference(uri: str, data: bytes = b"", **changed: Json) -> dict[str, Json]:
    """A reference whose digest and size are those of `data`."""
    made = {
        "uri": uri,
        "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "size_bytes": len(data),
        "mime": "application/json",
        "created_at": 1_760_000_000_000,
        "producer": "demo-family/demo-model-1",
    }
    return {**made, **changed}


def a_candidate(output: Json = ABSENT, **changed: Json) -> dict[str, Json]:
    """A candidate; without `output` it has no such member."""
    made = {
        "candidate_id": "cand-exec-p-0001",
        "execution_id": "exec-p-0001",
        "output_ref": a_reference("artifact://reference/sha256:00"),
        "evidence_inline": [],
        "evidence_refs": [],
    }
    if output is not ABSENT:
        made["output"] = output
    return {**made, **changed}


def a_binding(policy_id: str = SCHEMA_ONLY, params: Json = ABSENT, **changed: Json) -> dict[str, Json]:
    """A binding as a kernel sends it."""
    made = {
        "policy_id": policy_id,
        "policy_version": "1",
        "policy_hash": KERNEL_HASHES.get(policy_id, "0" * 64),
        "policy_params": {} if params is ABSENT else params,
    }
    return {**made, **changed}


def a_verify_body(
    output: Json = ABSENT,
    schema: Json = ABSENT,
    policy_id: str = SCHEMA_ONLY,
    params: Json = ABSENT,
    *,
    candidate: dict[str, Json] | None = None,
    policy: dict[str, Json] | None = None,
) -> dict[str, Json]:
    """The body of POST /verify."""
    return {
        "candidate": candidate or a_candidate(output),
        "output_schema": {"type": "object"} if schema is ABSENT else schema,
        "policy": policy or a_binding(policy_id, params),
    }


def a_verify_request(*arguments: Json, **named: Any) -> VerifyRequest:
    """The same, parsed."""
    return read_request(a_verify_body(*arguments, **named))


class Context:
    """A Lambda context with time left."""

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


def canonical(value: Json) -> bytes:
    """The canonical form of values without odd numbers, made here so that no code of the door's decides."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def result_hash(body: Json, verdict: dict[str, Json]) -> str:
    """What verifier_result_hash must be for this verdict (section 5)."""
    members = {name: body["candidate"][name] for name in ("candidate_id", "execution_id")}
    members |= {name: verdict[name] for name in ("model_id", "passed", "provider_family", "reason_codes")}
    members |= {"policy_hash": body["policy"]["policy_hash"], "score": float(verdict["score"])}
    return hashlib.sha256(canonical(members)).hexdigest()


class Judge(ABC):
    """Whoever answers POST /verify."""

    @abstractmethod
    def send(self, raw: bytes) -> tuple[int, bytes]:
        """Status and body for these bytes."""

    def post(self, body: Json | bytes) -> tuple[int, dict[str, Json]]:
        """Status and parsed body of POST /verify."""
        status, raw = self.send(body if isinstance(body, bytes) else canonical(body))
        return status, json.loads(raw)

    def verdict(self, *arguments: Json, **named: Any) -> dict[str, Json]:
        """The verdict on `a_verify_body(...)`, which must be answered with 200 and its own hash."""
        body = a_verify_body(*arguments, **named)
        status, verdict = self.post(body)
        assert status == 200, verdict
        assert verdict["verifier_result_hash"] == result_hash(body, verdict)
        return verdict


class Verifier(Judge):
    """The verify function as Lambda runs it, under the given settings."""

    def __init__(self, **settings: str) -> None:
        made = {"PROVIDER_FAMILY": "demo-family", "MODEL_ID": "demo-model-1", "BUCKET": "unused", **settings}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIECEWORK_")}
        self._environment = {**kept, **{f"PIECEWORK_{name}": value for name, value in made.items()}}
        self._environment["POWERTOOLS_METRICS_NAMESPACE"] = "Piecework"
        with mock.patch.dict(os.environ, self._environment, clear=True):
            sys.modules.pop("runtime.verify.app", None)
            self._handler = importlib.import_module("runtime.verify.app").handler

    def send(self, raw: bytes) -> tuple[int, bytes]:
        event = {
            "resource": "/verify",
            "path": "/prod/verify",
            "httpMethod": "POST",
            "headers": {"Content-Type": "application/json"},
            "requestContext": {"authorizer": {"caller": "anonymous"}, "apiId": "api", "stage": "prod"},
            "body": raw.decode(),
            "isBase64Encoded": False,
        }
        with mock.patch.dict(os.environ, self._environment, clear=True):
            answer = self._handler(event, Context())
        return answer["statusCode"], answer["body"].encode()


def summary(verdict: dict[str, Json]) -> tuple[bool, float, list[int]]:
    """The three members that a policy decides."""
    return verdict["passed"], verdict["score"], verdict["reason_codes"]
