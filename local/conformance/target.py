"""The deployment under test, requests with fresh ids, and what a case may expect of an answer."""

import base64
import copy
import hashlib
import json
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import httpx

Json = Any
REQUEST_SECONDS: Final = 150  # as long as a kernel would keep trying
ERROR_CHARACTERS: Final = 512  # what a kernel keeps of an error body
ALWAYS_FORBIDDEN: Final = (408, 429)
SCHEMA: Final[Json] = {
    "type": "object",
    "required": ["answer"],
    "properties": {
        "answer": {"type": "string"},
        "confidence": {"type": "number"},
        "check_summary": {"type": "string"},
    },
}
POLICY_HASHES: Final = {
    "vp.schema_only.v1": "a52d250d216f425973eb5a13c392d4dbc172357181b683e86caa4a5c64db94a7",
    "vp.schema_thresholds.v1": "052312b5f56ed81a7c6f693d5d24fde5dc42825ecc61c6f77bccf07c444c4edf",
    "vp.crosscheck.v1": "236ef6d386d272715034acda035ae212c85a87dd6a09958e781c5d0b6880846d",
}


class Failed(Exception):
    """The deployment does not do what the case asks."""


class NotApplicable(Exception):
    """The case cannot be told here, for instance without a token."""


def expect(holds: object, message: object) -> None:
    """Fail the case unless something holds.

    Raises:
        Failed: it does not.
    """
    if not holds:
        raise Failed(str(message)[:600])


@dataclass
class Target:
    """A base URL with a credential; remembers every status it saw."""

    url: str
    token: str = ""
    statuses: list[int] = field(default_factory=list)

    @cached_property
    def http(self) -> httpx.Client:
        return httpx.Client(timeout=REQUEST_SECONDS, trust_env=False, limits=httpx.Limits(max_connections=40))

    @property
    def credential(self) -> dict[str, str]:
        """The header for a token of the form `name=secret` (Basic) or `secret` (Bearer)."""
        if not self.token:
            return {}
        name, separator, secret = self.token.partition("=")
        if not separator:
            return {"authorization": f"Bearer {self.token}"}
        return {"authorization": f"Basic {base64.b64encode(f'{name}:{secret}'.encode()).decode()}"}

    def send(
        self, method: str, path: str, content: bytes | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """One request with the credential, unless `headers` hold another."""
        answer = self.http.request(
            method, self.url.rstrip("/") + path, content=content, headers={**self.credential, **(headers or {})}
        )
        self.statuses.append(answer.status_code)
        return answer

    def post(self, path: str, body: Json) -> httpx.Response:
        """Send a JSON value, or bytes as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        return self.send("POST", path, content, {"content-type": "application/json"})

    def execute(self, body: Json) -> Json:
        """The answer to a task that must be answered."""
        answer = self.post("/execute", body)
        expect(answer.status_code == 200, f"/execute answered {answer.status_code}: {answer.text}")
        made = answer.json()
        expect(set(made) == {"candidate_output", "evidence_inline", "evidence_refs"}, f"members are {sorted(made)}")
        return made

    def verify(self, body: Json) -> Json:
        """The verdict on a candidate that must get one; its hash is checked."""
        answer = self.post("/verify", body)
        expect(answer.status_code == 200, f"/verify answered {answer.status_code}: {answer.text}")
        verdict = answer.json()
        if not isinstance(body, bytes):
            expect(verdict["verifier_result_hash"] == result_hash(body, verdict), "verifier_result_hash is another one")
        return verdict


def refused(answer: httpx.Response, *statuses: int, saying: str = "") -> None:
    """Expect a refusal whose body explains itself and gives nothing away."""
    expect(answer.status_code in statuses, f"answered {answer.status_code}, not {statuses}: {answer.text}")
    expect(len(answer.text) <= ERROR_CHARACTERS, "the error body is over 512 characters")
    try:
        text = answer.json()["error"]
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"the error body is {answer.text!r}") from error
    expect(isinstance(text, str) and text, "the error body does not explain")
    expect(saying in text, f"the error does not say {saying!r}: {text}")
    expect("forced offline by policy" not in text.lower(), "the error holds the phrase that ends a step")
    expect("Traceback" not in answer.text and "/var/" not in answer.text, "the error shows internals")


def a_task(**changed: Json) -> Json:
    """An ExecuteRequest as a kernel sends it, with fresh ids; `output_schema` and `mimes` go into its contract."""
    execution_id = f"exec-p-{uuid.uuid4()}"
    schema, mimes = changed.pop("output_schema", SCHEMA), changed.pop("mimes", None)
    body = {
        "task_id": f"task-{uuid.uuid4()}",
        "execution_id": execution_id,
        "attempt_id": execution_id,
        "task_type": "swarm",
        "inputs": {"prompt": "hello", "agent_id": "a"},
        "profile": "default",
        "stage": "EXPLORE",
        "seed_bundle": None,
        **changed,
    }
    contract = _contract(body["inputs"], schema, mimes)
    return {**body, "task_contract": {**contract, "task_id": body["task_id"], "task_type": body["task_type"]}}


def _contract(inputs: Json, schema: Json, mimes: list[str] | None) -> dict[str, Json]:
    allowed = ["application/json", "text/plain", "text/markdown", "text/csv"] if mimes is None else mimes
    return {
        "protocol_version": "v0.1",
        "inputs": inputs,
        "output_schema": schema,
        "budget": {
            "time_ms": 30_000,
            "max_steps": 10,
            "cost_units": 1_000,
            "reuse_verify_time_ms": 20_000,
            "reuse_verify_cost_units": 200,
            "reuse_max_attempts": 1,
        },
        "assignment": {"mode": "CLAIM", "claim": {"lease_ms": 5_000, "max_concurrency": {"propose": 1, "verify": 1}}},
        "acceptance": {
            "quorum_threshold": 1,
            "verifier_policy": a_binding("vp.schema_only.v1"),
            "vote": {"commit_reveal": True, "reveal_deadline_ms": 10_000},
            "settlement": {
                "window_ms": 86_400_000,
                "implicit_weight": 0.1,
                "implicit_diminishing_returns": {"W": 10, "K": 50},
                "bad_penalty": {"P": 3},
                "feedback": {"mode": "CAPABILITY", "authority_pubkey": "ed25519:none"},
            },
        },
        "expiry_ms": 1_718_030_000_000,
        "evidence_policy": {
            "max_inline_evidence_bytes": 65_536,
            "max_inline_media_bytes": 0,
            "inline_mime_allowlist": allowed,
        },
    }


def a_binding(policy_id: str, params: Json = None, policy_hash: str | None = None, version: str = "1") -> Json:
    """A policy binding with the kernel's own hash unless another is given."""
    return {
        "policy_id": policy_id,
        "policy_version": version,
        "policy_hash": POLICY_HASHES.get(policy_id, "0" * 64) if policy_hash is None else policy_hash,
        "policy_params": {} if params is None else params,
    }


def a_candidate(output: Json, *, schema: Json = None, policy: Json = None, **changed: Json) -> Json:
    """A VerifyRequest for an output, under schema_only and `{"type": "object"}` unless told otherwise."""
    execution_id = f"exec-p-{uuid.uuid4()}"
    candidate = {
        "candidate_id": f"cand-{execution_id}",
        "execution_id": execution_id,
        "output_ref": a_reference("artifact://reference/sha256:00"),
        "output": output,
        "evidence_inline": [],
        "evidence_refs": [],
        **changed,
    }
    schema = {"type": "object"} if schema is None else schema
    return {"candidate": candidate, "output_schema": schema, "policy": policy or a_binding("vp.schema_only.v1")}


def a_reference(uri: str, digest: str = "sha256:00") -> Json:
    """An ArtifactRef."""
    created = 1_718_000_000_000
    return {
        "uri": uri,
        "digest": digest,
        "size_bytes": 1,
        "mime": "application/json",
        "created_at": created,
        "producer": "p",
    }


def result_hash(request: Json, verdict: Json) -> str:
    """What verifier_result_hash must be for this verdict."""
    members = {name: request["candidate"][name] for name in ("candidate_id", "execution_id")}
    members |= {name: verdict[name] for name in ("model_id", "passed", "provider_family", "reason_codes")}
    members |= {"policy_hash": request["policy"]["policy_hash"], "score": float(verdict["score"])}
    return hashlib.sha256(canonical(members)).hexdigest()


def canonical(value: Json) -> bytes:
    """Canonical bytes of values without odd numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def without(body: Json, name: str) -> Json:
    """A copy lacking one member."""
    return {key: copy.deepcopy(value) for key, value in body.items() if key != name}
