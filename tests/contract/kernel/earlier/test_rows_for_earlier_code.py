"""Code of 7a1e751 reads rows of this code, during a deployment and after it was taken back.

It ignores attributes and members of the checkpoint that it does not know. But it makes these records of all members
that it finds, and fails on one more: so nothing may be added within them.
"""

import json
import zlib

import pytest

from piecework.edge.roles import parse_roles
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.policies import a_policy
from tests.support.kernel.stage import KernelStage
from tests.support.kernel.tables import new_tables

KNOWN = {
    "blocked": "reason ref",
    "session": "id consumer_id created_at_ms expires_at_ms has_shown_life",
    "step": "id tool_id remote status attempt max_attempts created_at_ms deadline_ms job idempotency_key",
    "job": "id not_before_ms held_by",
    "event": "id sequence type at_ms payload causation_id correlation_id step_id",
    "outcome": "status result error is_denied",
    "history": "step_id attempt tool_id status completed_at_ms error",
    "push": "kind agent_id consumer_id execution_id session_id ref data",
    "job push": "to job_id execution_id step_id tool_id attempt deadline_ms not_before_ms",
    "approval": "execution_id agent_id step_id tool_id since_ms",
}
PATIENT = """
    rules:
      - id: patient
        when: {tool_id: pay.refund}
        then: {decision: require_approval, timeout: 24h, on_timeout: fail, private: true}
    default: {decision: allow}
"""


@pytest.fixture
def stage(embedded_aws):
    clock = FakeClock(START_MS)
    return KernelStage(clock=clock, store=new_tables(embedded_aws, clock), policy=a_policy(PATIENT))


def records_of(row):
    """The records in a row that earlier code makes of all their members."""
    sk, value = row["sk"]["S"], json.loads(row["body"]["S"]) if "body" in row else None
    if sk == "META":
        packed = row["record"]
        record = json.loads(packed["S"] if "S" in packed else zlib.decompress(packed["B"]))
        steps = record["steps"]
        yield from (("blocked", record["blocked"]), ("session", record["session"]), *(("step", one) for one in steps))
        yield from (("job", step["job"]) for step in steps)
    elif sk.startswith(("EV#", "HIST#")):
        yield from (("event" if sk.startswith("EV#") else "history", one) for one in value)
    elif sk.startswith("DONE#"):
        yield "outcome", value
    elif "push" in row:
        push = json.loads(row["push"]["S"])
        yield "job push" if "job_id" in push else "push", push
    elif row["pk"]["S"] == "APPROVALS":
        yield "approval", json.loads(row["approval"]["S"])


def check_rows(stage, embedded_aws):
    rows = embedded_aws.client("dynamodb").scan(TableName=stage.store.table, ConsistentRead=True)["Items"]
    found = [(kind, record) for row in rows for kind, record in records_of(row) if record is not None]
    for kind, record in found:
        assert set(record) <= set(KNOWN[kind].split()), (kind, record)
    return {kind for kind, _ in found}


def test_records_that_earlier_code_reads_whole_have_no_member_that_it_does_not_know(stage, embedded_aws):
    mia = parse_roles("").caller("mia")
    agent = stage.agent("desk", "one", "desk-token")
    stage.runner("geo", "one", "geo.lookup,pay.refund")
    execution = stage.kernel.create("desk", {"n": 1}, {}, "shop").execution.id
    agent.look()
    session = agent.of("execution.assigned")[-1]["session_id"]
    steps = [stage.kernel.intent(execution, session, call(tool), "desk-token") for tool in ("geo.lookup", "pay.refund")]
    seen = check_rows(stage, embedded_aws)
    assert {"blocked", "session", "step", "job", "event", "job push", "approval"} <= seen

    assert stage.kernel.get(execution).execution.blocked.on_timeout == "fail"
    stage.clock.move(60)
    payload = {"step_id": steps[1]["step_id"], "approved": False, "reason": "no"}
    stage.kernel.signal(execution, "step.approve", payload, mia)

    assert {"push", "outcome", "history"} <= check_rows(stage, embedded_aws)
    assert stage.kernel.get(execution).execution.paused_ms == 60_000
    assert {event.by for event in stage.kernel.events(execution, 0, 100)} == {"shop", "desk-token", "mia"}


def call(tool_id):
    from piecework.kernel.model.commands import Intent

    return Intent("invoke_tool", tool_id, {"cents": 1}, True, remote=True)
