"""Builders of requests to the runtime door, and bare connections for what an HTTP library would tidy up."""

import copy
import json
import socket
import ssl
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from tests.support.machine import RunningGateway
from tests.support.runtime.verification import ABSENT, a_verify_body
from tests.support.served import url_run

Json = Any
EVENTS = Path(__file__).parents[3] / "events"
KERNEL_HEADERS = {"accept": "*/*", "content-type": "application/json"}  # and content-length, on POST
SOCKET_SECONDS = 30

KERNEL_SCHEMA: Json = {
    "type": "object",
    "required": ["answer"],
    "properties": {
        "answer": {"type": "string"},
        "confidence": {"type": "number"},
        "check_summary": {"type": "string"},
    },
}
MIMES = ["application/json", "text/plain", "text/markdown", "text/csv"]
BUDGET = {
    "time_ms": 30_000,
    "max_steps": 10,
    "cost_units": 1_000,
    "mode": "LIFETIME",
    "explore_cost_units": 350,
    "verify_cost_units": 450,
    "finalize_cost_units": 200,
    "reuse_verify_time_ms": 20_000,
    "reuse_verify_cost_units": 200,
    "reuse_max_attempts": 1,
}
ASSIGNMENT = {
    "mode": "CLAIM",
    "claim": {"lease_ms": 5_000, "max_concurrency": {"propose": 1, "verify": 1}},
    "explore": {"max_proposers": 1, "topk": 3, "stop": {"no_new_evidence_rounds": 3}},
    "verify": {"max_verifiers": 1},
    "finalize": {"max_finalizers": 1},
}
ACCEPTANCE = {
    "quorum_threshold": 1,
    "verifier_policy": {
        "policy_id": "vp.schema_only.v1",
        "policy_version": "1",
        "policy_hash": "a52d250d216f425973eb5a13c392d4dbc172357181b683e86caa4a5c64db94a7",
        "policy_params": {},
    },
    "vote": {"commit_reveal": True, "reveal_deadline_ms": 10_000},
    "settlement": {
        "window_ms": 86_400_000,
        "implicit_weight": 0.1,
        "implicit_diminishing_returns": {"W": 10, "K": 50},
        "bad_penalty": {"P": 3},
        "feedback": {"mode": "CAPABILITY", "authority_pubkey": "ed25519:placeholder"},
    },
    "da_quorum_threshold": 1,
}


def a_contract(
    task_id: str, task_type: str, inputs: Json, schema: Json = ABSENT, mimes: list[str] | None = None
) -> dict[str, Json]:
    """The kernel's sample contract, every optional member present."""
    return {
        "protocol_version": "v0.1",
        "task_id": task_id,
        "task_type": task_type,
        "inputs": inputs,
        "output_schema": copy.deepcopy(KERNEL_SCHEMA) if schema is ABSENT else schema,
        "budget": copy.deepcopy(BUDGET),
        "assignment": copy.deepcopy(ASSIGNMENT),
        "acceptance": copy.deepcopy(ACCEPTANCE),
        "task_mode": "ONE_SHOT",
        "expiry_ms": 1_795_820_000_000,
        "evidence_policy": {
            "max_inline_evidence_bytes": 65_536,
            "max_inline_media_bytes": 0,
            "inline_mime_allowlist": MIMES if mimes is None else mimes,
            "max_snippet_bytes": 8_192,
            "max_snippet_tokens": 2_048,
        },
    }


def an_execute_request(
    task_type: str = "swarm",
    inputs: Json = ABSENT,
    *,
    schema: Json = ABSENT,
    mimes: list[str] | None = None,
    **changed: Json,
) -> dict[str, Json]:
    """A request as a kernel sends it, with ids of its own; `changed` replaces top-level members."""
    execution_id = changed.get("execution_id", f"exec-p-{uuid.uuid4()}")
    task_id = changed.get("task_id", f"task-{uuid.uuid4()}")
    given = {"prompt": "hello"} if inputs is ABSENT else inputs
    return {
        "task_id": task_id,
        "execution_id": execution_id,
        "task_type": task_type,
        "inputs": given,
        "profile": "default",
        "task_contract": a_contract(task_id, task_type, given, schema, mimes),
        "stage": "EXPLORE",
        "attempt_id": execution_id,
        "seed_bundle": None,
        **changed,
    }


def a_nonce_request(seconds: float = 0, **inputs: Json) -> dict[str, Json]:
    """A request whose runs are counted and whose answer no other run can give."""
    return an_execute_request("nonce", {"seconds": seconds, **inputs})


def a_scripted_request(inputs: Json, *, schema: Json = ABSENT, mimes: list[str] | None = None) -> dict[str, Json]:
    """A request that says what its executor does; any output fits unless a schema is given."""
    return an_execute_request("scripted", inputs, schema={} if schema is ABSENT else schema, mimes=mimes)


def a_seed(payload: Json, hit_type: str = "Exact") -> dict[str, Json]:
    """A knowledge seed with one hit."""
    hit = {
        "hit_type": hit_type,
        "decision_ref": {"task_id": "task-earlier", "epoch": 1, "final_commit_hash": "ab" * 32},
        "reuse_payload": payload,
        "evidence_digests": [],
        "reason_codes_summary": {"reason_codes": [100]},
        "confidence_hint": 1.0,
    }
    constraints = {
        "must_consider_claims": ["policy:vp.schema_only.v1:1", "task_type:swarm"],
        "must_avoid_blacklist_candidate_hashes": [],
    }
    return {"seed_type": "SIMILAR_HITS_V1", "hits": [hit], "constraints": constraints}


def a_verify_request(output: Json, **named: Json) -> dict[str, Json]:
    """The body of POST /verify for an output."""
    return a_verify_body(output, **named)


def an_event_request(event_id: str = "") -> dict[str, Json]:
    """The body of POST /agent-events for a friend request."""
    event = {
        "event_id": event_id or str(uuid.uuid4()),
        "event_type": "friend_request",
        "source_kind": "peer_relationship",
        "target_executor": "core-agent",
        "payload": {"action": "request"},
        "requires_commit": True,
        "allowed_actions": ["accept", "reject", "block"],
        "created_at": 1_760_000_000_000,
    }
    return {"event": event}


def reordered(value: Json) -> Json:
    """The same value with the members of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


def execute(runtime: RunningGateway, request: Json, **options: Any) -> httpx.Response:
    """POST /execute."""
    return runtime.http.post("/execute", json=request, **options)


def executed(runtime: RunningGateway, request: Json) -> dict[str, Json]:
    """The answer to a request that must be answered with 200, its three members in place."""
    answer = execute(runtime, request)
    assert answer.status_code == 200, answer.text
    body: dict[str, Json] = answer.json()
    assert set(body) == {"candidate_output", "evidence_inline", "evidence_refs"}
    assert isinstance(body["evidence_inline"], list)
    assert isinstance(body["evidence_refs"], list)
    return body


@dataclass(frozen=True)
class Heard:
    """What came over a bare connection."""

    status: int
    headers: dict[str, str]
    body: bytes


def speak(runtime: RunningGateway, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Heard:
    """Send exactly these headers, and the credential where there is one, and read one answer by its stated length."""
    where = urlsplit(runtime.url)
    own = {name: value for name, value in runtime.http.headers.items() if name == "authorization"}
    lines = [f"{method} {where.path.rstrip('/')}{path} HTTP/1.1", f"host: {where.netloc}"]
    lines += [f"{name}: {value}" for name, value in {**headers, **own}.items()]
    with connected(where) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        with connection.makefile("rb") as stream:
            status = int(stream.readline().split()[1])
            heard = {}
            while line := stream.readline().strip():
                name, _, value = line.decode("latin-1").partition(":")
                heard[name.lower()] = value.strip()
            return Heard(status, heard, stream.read(int(heard["content-length"])))


def connected(where: SplitResult) -> socket.socket:
    """A bare connection, in TLS for https."""
    port = where.port or (443 if where.scheme == "https" else 80)
    plain = socket.create_connection((where.hostname, port), SOCKET_SECONDS)
    if where.scheme != "https":
        return plain
    return ssl.create_default_context().wrap_socket(plain, server_hostname=where.hostname)


def error_of(answer: httpx.Response) -> dict[str, str]:
    """An error body, which must be short JSON whose first words explain; ours always has a `code`."""
    assert len(answer.text) <= 512
    body: dict[str, str] = json.loads(answer.text)
    assert {"error"} <= set(body) if url_run.url() else set(body) == {"error", "code"}
    assert answer.text.startswith('{"error"') or url_run.url()
    assert body["error"].strip()
    return body


def code_of(answer: httpx.Response, code: str) -> bool:
    """Whether an error body has this code; one of another implementation behind a URL need not have any."""
    return error_of(answer).get("code", code) == code


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def minimal_ok(schema: Json, output: Json) -> bool:
    """The kernel's own check of a candidate (section 4.2), made anew: what it fails is never an answer."""
    if not isinstance(schema, dict) or not _is_of(schema.get("type"), output):
        return False
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and not (isinstance(output, dict) and set(required) <= output.keys()):
        return False
    if not isinstance(properties, dict) or not isinstance(output, dict):
        return True
    named = {name: each.get("type") for name, each in properties.items() if isinstance(each, dict)}
    return all(_is_of(named.get(name), value) for name, value in output.items())


def _is_of(named: Json, value: Json) -> bool:
    if not isinstance(named, str):
        return True
    if named in ("integer", "number"):
        return isinstance(value, int | float if named == "number" else int) and not isinstance(value, bool)
    return named in TYPES and isinstance(value, TYPES[named])
