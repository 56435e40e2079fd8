"""Runtime specification, cases 56-58: agent events and topic interpretation, over real HTTP."""

import hashlib
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.runtime.agent_events import TOPIC_SCHEMA, a_deliberation, a_proposal, a_reply, an_event, topic_inputs
from tests.support.runtime.requests import an_execute_request, error_of, execute, executed
from tests.support.served import url_run

HOOKS = Path(__file__).parents[2] / "support" / "event_hooks"
EVENT_TYPES = (
    *("friend_request", "dm_received", "payment_request", "payment_update", "task_claim_received"),
    *("task_claim_decision_received", "task_result_received", "task_completion_decision_received"),
    *("task_settled_received", "topic_message_requires_reply", "third_party_result"),
)
SOURCE_KINDS = (
    *("peer_relationship", "peer_direct_message", "payment_summary", "task_lifecycle", "topic_message"),
    "service_net_result",
)
LEAST_PUBLISHED_CONFIDENCE = 0.65


@pytest.fixture(scope="module")
def hooked(gateway):
    return gateway(PIECEWORK_EXECUTORS_PATH=str(HOOKS))


def send(runtime, **changed):
    return runtime.http.post("/agent-events", json=an_event(**{"event_id": str(uuid.uuid4()), **changed}))


def acknowledged(answer, event_type):
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["ok"] is True
    assert type(body["acked_at"]) is int
    assert url_run.url() or body["detail"] == f"received {event_type}"
    return body


def a_topic_request(inputs):
    return an_execute_request("topic_interpretation", inputs, schema=TOPIC_SCHEMA)


def interpreted(runtime, text="I support this.", **inputs):
    return executed(runtime, a_topic_request(topic_inputs(text, **inputs)))["candidate_output"]


def test_event_all_types(runtime):
    for event_type in EVENT_TYPES:
        for kind in SOURCE_KINDS:
            body = acknowledged(send(runtime, event_type=event_type, source_kind=kind), event_type)
            assert url_run.url() or "decision" not in body  # where no hook is set
    for unknown in ({"event_type": "unheard_of"}, {"source_kind": "rumour"}):
        answer = send(runtime, **unknown)
        assert answer.status_code in (400, 422) if url_run.url() else answer.status_code == 422
        assert "decision" not in error_of(answer)


def test_event_duplicate(runtime):
    event_id = str(uuid.uuid4())
    answers = [send(runtime, event_id=event_id) for _ in range(2)]

    assert all(acknowledged(answer, "topic_message_requires_reply")["ok"] for answer in answers)


@pytest.mark.inside("sets a hook that counts its events")
def test_event_duplicate_has_its_side_effects_once(hooked):
    event_id = str(uuid.uuid4())

    with ThreadPoolExecutor(5) as senders:
        answers = list(senders.map(lambda _: send(hooked, event_id=event_id, dedupe_key=event_id), range(5)))
    other_id = send(hooked, dedupe_key=event_id)

    decided = acknowledged(answers[0], "topic_message_requires_reply")
    assert decided["decision"]["route"] == "wattswarm_direct"
    assert {answer.content for answer in answers} == {answers[0].content}
    assert "decision" not in acknowledged(other_id, "topic_message_requires_reply")
    assert hooked.runs(event_id) == 1

    failing = {"event_id": str(uuid.uuid4()), "payload": {"content": "fail first"}}
    failed, again = send(hooked, **failing), send(hooked, **failing)
    assert (failed.status_code, error_of(failed)["code"]) == (503, "unavailable")
    assert "decision" in acknowledged(again, "topic_message_requires_reply")


def test_topic_support(runtime):
    output = interpreted(runtime, "I support this.")

    assert (output["stance"], output["needs_review"]) == ("support", False)
    assert output["confidence"] >= LEAST_PUBLISHED_CONFIDENCE
    assert (output["proposal_id"], output["proposal_message_id"]) == ("prop-1", "msg-prop-1")
    assert output["source_message_id"] == "msg-1"


def test_topic_reject_disagree(runtime):
    for text in ("I disagree.", "I don’t agree", "I do not support this", "Same as before"):
        output = interpreted(runtime, text, prior_deliberations=[a_deliberation("reject")])

        assert (output["stance"], output["needs_review"]) == ("reject", False), text
        assert output["confidence"] >= LEAST_PUBLISHED_CONFIDENCE


def test_topic_no_proposal(runtime):
    for without in ({"candidate_proposals": []}, {"source_message": a_reply("I support this", "msg-elsewhere")}):
        output = interpreted(runtime, **without)

        assert output["needs_review"] is True
        assert output["confidence"] < LEAST_PUBLISHED_CONFIDENCE
        assert (output["proposal_id"], output["proposal_message_id"]) == ("", "")


def test_topic_missing_source_400(runtime):
    without = topic_inputs()
    del without["source_message"]

    for inputs in (without, topic_inputs(source_message="text"), topic_inputs(source_message=None)):
        answer = execute(runtime, a_topic_request(inputs))

        assert answer.status_code == 400
        assert "source_message" in error_of(answer)["error"]


def test_topic_output_schema(runtime):
    request = a_topic_request(topic_inputs("I support this."))
    wanting = an_execute_request(
        "topic_interpretation", topic_inputs(), schema={**TOPIC_SCHEMA, "required": ["signature"]}
    )

    body = executed(runtime, request)

    output = body["candidate_output"]
    assert set(output) == {*TOPIC_SCHEMA["required"], "evidence"}
    assert output["evidence"] == [{"kind": "message_quote", "message_id": "msg-1", "quote": "I support this."}]
    basis = f"{request['task_id']}|{request['execution_id']}|support|prop-1".encode()
    (ref,) = body["evidence_refs"]
    assert ref["digest"] == f"sha256:{hashlib.sha256(basis).hexdigest()}"
    assert runtime.http.get(ref["uri"]).content == basis
    assert execute(runtime, wanting).status_code == 400


def test_topic_inline_json_parses_and_fits(runtime):
    proposals = [a_proposal(number, goal='"☕\\\n' * 1_000) for number in range(200)]
    earlier = [a_deliberation("support") for _ in range(200)]

    body = executed(runtime, a_topic_request(topic_inputs(candidate_proposals=proposals, prior_deliberations=earlier)))

    (inline,) = body["evidence_inline"]
    assert inline["mime"] == "application/json"
    assert len(inline["content"].encode()) <= 65_536
    assert len(json.dumps(body["evidence_inline"], ensure_ascii=False).encode()) <= 120_000
    content = json.loads(inline["content"])
    assert content["source_message_id"] == "msg-1"
    assert content["candidate_proposals"][0]["proposal_id"] == "prop-0"
    assert {"reply_to_message_id", "prior_deliberations"} <= set(content)
