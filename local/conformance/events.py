"""Section 11, agent events and topic interpretation."""

import json
import uuid
from typing import Final

from local.conformance.target import Json, Target, a_task, expect, refused

TYPES: Final = (
    "friend_request",
    "dm_received",
    "payment_request",
    "payment_update",
    "task_claim_received",
    "task_claim_decision_received",
    "task_result_received",
    "task_completion_decision_received",
    "task_settled_received",
    "topic_message_requires_reply",
    "third_party_result",
)
KINDS: Final = (
    "peer_relationship",
    "peer_direct_message",
    "payment_summary",
    "task_lifecycle",
    "topic_message",
    "service_net_result",
)
NEEDS_REVIEW_BELOW: Final = 0.65
TEXTS: Final = ("source_message_id", "proposal_id", "proposal_message_id", "stance", "answer", "summary")
TOPIC_SCHEMA: Final = {
    "type": "object",
    "required": [*TEXTS, "confidence", "needs_review"],
    "properties": {
        **{name: {"type": "string"} for name in TEXTS},
        "confidence": {"type": "number"},
        "needs_review": {"type": "boolean"},
        "evidence": {"type": "array"},
    },
}


def _event(event_type: str, source_kind: str = KINDS[0]) -> Json:
    event = {
        "event_id": str(uuid.uuid4()),
        "event_type": event_type,
        "source_kind": source_kind,
        "payload": {"text": "hostile {{text}}"},
        "requires_commit": False,
        "created_at": 1_773_144_000_000,
    }
    return {"event": event}


def _acknowledged(target: Target, body: Json) -> Json:
    answer = target.post("/agent-events", body)
    expect(answer.status_code == 200, answer.text)
    made = answer.json()
    expect(made["ok"] is True and type(made["acked_at"]) is int and "decision" not in made, made)
    return made


def event_all_types(target: Target) -> None:
    for position, event_type in enumerate(TYPES):
        _acknowledged(target, _event(event_type, KINDS[position % len(KINDS)]))
    answer = target.post("/agent-events", _event("unheard_of"))
    refused(answer, 400, 422)
    expect("decision" not in answer.json(), "an error body holds a decision")


def event_duplicate(target: Target) -> None:
    body = _event("friend_request")
    _acknowledged(target, body)
    _acknowledged(target, body)


def _topic(target: Target, text: str, reply_to: str | None) -> Json:
    proposal = {
        "proposal_id": "p-1",
        "proposal_message_id": "m-1",
        "coordinator_node_id": "n",
        "participants": ["n"],
        "threshold_percent": 60,
        "result_feed_key": "f",
        "goal": None,
    }
    message: Json = {
        "message_id": "m-9",
        "author_node_id": "n",
        "reply_to_message_id": reply_to,
        "content": {},
        "text": text,
    }
    inputs = {
        "feed_key": "f",
        "scope_hint": "s",
        "source_message": message,
        "candidate_proposals": [proposal, {**proposal, "proposal_id": "p-2", "proposal_message_id": "m-2"}],
        "thread_context": [],
        "prior_deliberations": [],
    }
    made = target.execute(a_task(task_type="topic_interpretation", inputs=inputs, output_schema=TOPIC_SCHEMA))
    output = made["candidate_output"]
    expect(all(isinstance(output[name], str) for name in TEXTS), output)
    expect(isinstance(output["needs_review"], bool) and 0 <= output["confidence"] <= 1, output)
    for item in made["evidence_inline"]:
        if item["mime"] == "application/json":
            json.loads(item["content"])
    return output


def topic_support(target: Target) -> None:
    output = _topic(target, "I fully support this.", "m-1")
    seen = (output["stance"], output["proposal_id"], output["proposal_message_id"], output["source_message_id"])
    expect(seen == ("support", "p-1", "m-1", "m-9"), output)
    expect(not output["needs_review"] and output["confidence"] >= NEEDS_REVIEW_BELOW, output)


def topic_reject_disagree(target: Target) -> None:
    expect(_topic(target, "I disagree with this.", "m-1")["stance"] == "reject", "disagreement is no support")


def topic_no_proposal(target: Target) -> None:
    output = _topic(target, "I support this.", "m-unknown")
    expect(output["needs_review"] and output["confidence"] < NEEDS_REVIEW_BELOW, output)


def topic_missing_source_400(target: Target) -> None:
    inputs = {"feed_key": "f", "candidate_proposals": []}
    refused(target.post("/execute", a_task(task_type="topic_interpretation", inputs=inputs)), 400)


def topic_output_schema(target: Target) -> None:
    _topic(target, "Nothing in particular.", None)


def topic_inline_json_parses_and_fits(target: Target) -> None:
    _topic(target, "support " + "x" * 60_000, "m-1")
