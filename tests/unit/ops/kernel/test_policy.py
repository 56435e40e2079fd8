"""The policy as it is deployed now: its files, and each rule's answer to a call."""

import pytest

from piecework.ops.kernel_routes import EVALUATE, KERNEL
from tests.support.ops.kernel import ENV, KernelOps

RULES = """
rules:
  - id: office
    priority: 1
    when: {tool_id: pay.refund, arguments: [{field: cents, max: 100}]}
    then: {decision: allow}
  - id: refunds
    priority: 2
    when: {tool_id: pay.refund}
    then: {decision: require_approval, reason: look, private: true, timeout: 2h}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(RULES)
    return path


@pytest.fixture
def ops(file):
    return with_policy(file)


def with_policy(path):
    made = KernelOps()
    made.door._env = {**made.door._env, "PIECEWORK_POLICY": str(path)}
    return made


def evaluate(ops, **body):
    return ops.ask("viewer", "POST", EVALUATE, {"agent_id": "triage", "tool_id": "pay.refund", **body})


def test_the_text_of_the_policy_is_shown(ops):
    assert ops.get(f"{KERNEL}/policy") == {
        "files": [{"name": "policy.yaml", "text": RULES}],
        "is_complete": True,
        "problem": None,
    }


def test_a_directory_shows_each_file_and_cuts_what_no_answer_holds(tmp_path, monkeypatch):
    for name in ("triage.yaml", "_global.yaml"):
        (tmp_path / name).write_text(RULES)
    ops = with_policy(tmp_path)
    assert [file["name"] for file in ops.get(f"{KERNEL}/policy")["files"]] == ["_global.yaml", "triage.yaml"]

    monkeypatch.setattr("piecework.ops.kernel.policies.TEXT_BYTES", len(RULES))
    cut = ops.get(f"{KERNEL}/policy")
    assert (len(cut["files"]), cut["is_complete"]) == (1, False)


def test_without_a_file_there_is_the_default_alone():
    assert KernelOps().get(f"{KERNEL}/policy")["files"] == []
    assert evaluate(KernelOps()).body["rule_id"] == "secure-default"
    assert ENV["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1")


def test_each_rule_that_was_tried_says_why_it_does_not_hold(ops):
    told = evaluate(ops, arguments={"cents": 500}).body

    assert (told["decision"], told["rule_id"], told["reason"]) == ("require_approval", "refunds", "look")
    assert (told["is_private"], told["wait"]) == (True, {"timeout": "2h", "on_timeout": "deny"})
    assert told["rules"] == [
        {
            "id": "office",
            "priority": 1,
            "matches": False,
            "problems": [{"condition": "arguments", "problem": "cents is not 100 or less"}],
        },
        {"id": "refunds", "priority": 2, "matches": True, "problems": []},
    ]


def test_the_first_rule_that_holds_decides(ops):
    told = evaluate(ops, arguments={"cents": 5}).body

    assert (told["decision"], told["rule_id"], len(told["rules"])) == ("allow", "office", 1)


def test_arguments_that_are_null_are_arguments_as_they_are_at_the_kernel_door(ops):
    null, none = evaluate(ops, arguments=None).body, evaluate(ops).body

    assert (null["decision"], null["rule_id"]) == ("allow", "office")
    assert none["rules"][0]["problems"] == [{"condition": "arguments", "problem": "the call has no arguments"}]
    assert evaluate(ops, arguments=None, labels=None, at=None, step_count=None).body == null


def test_what_is_asked_is_evaluated_against_what_is_deployed_now(ops, file):
    file.write_text("default: {decision: allow}\n")

    assert evaluate(ops).body["decision"] == "allow"


def test_a_policy_that_does_not_load_says_so(ops, file):
    file.write_text("rules: 1\n")

    assert "must be a list" in ops.get(f"{KERNEL}/policy")["problem"]
    refused = evaluate(ops)
    assert (refused.status, refused.body["code"]) == (503, "unavailable")
    assert "must be a list" in refused.body["error"]


@pytest.mark.parametrize(
    "body",
    [{"tool_id": ""}, {"agent_id": 1}, {"labels": []}, {"at": "noon"}, {"step_count": -1}, {"age_ms": 1.5}, {"x": 1}],
)
def test_a_call_without_a_meaning_is_refused(ops, body):
    assert evaluate(ops, **body).body["code"] == "bad_request"
