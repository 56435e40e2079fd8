"""What operators read of the kernel: the bodies of the kernel door, and its care with private arguments."""

import pytest

from piecework.ops.kernel_routes import KERNEL
from tests.support.kernel.desk import NamedDesk
from tests.support.kernel.policies import a_policy
from tests.support.ops.kernel import KernelOps

GATES = """
    rules:
      - id: letters
        when: {tool_id: mail.send}
        then: {decision: require_approval, private: true, timeout: 2h}
      - {id: refund, priority: 1, when: {tool_id: pay.refund}, then: {decision: require_approval, reason: look}}
    default: {decision: allow}
"""
SECRET = "the-letter"


@pytest.fixture
def ops(monkeypatch):
    monkeypatch.setattr("tests.support.kernel.desk.a_policy", lambda _: a_policy(GATES))
    return KernelOps(desk=NamedDesk(("shop",), ""))


@pytest.fixture
def work(ops):
    return ops.desk.work(labels={"team": "a"}, input={"n": 12345678901234567890123})


def step(work, tool_id, **members):
    """The step of a call that waits for a person."""
    return work.call(tool_id, **members).json()["step_id"]


def test_executions_logs_and_lists_have_the_bodies_of_the_kernel_door(ops, work):
    step(work, "pay.refund")
    listed = {"agent_id": "triage", "include": "reasons"}
    assert ops.get(f"{KERNEL}/executions", **listed) == ops.desk.get("/v0/executions", **listed).json()
    pairs = {
        f"/executions/{work.id}": {},
        "/executions": {"agent_id": "triage"},
        f"/executions/{work.id}/events": {"limit": "2"},
        "/approvals": {},
        "/agents": {},
        "/runners": {},
    }

    for path, query in pairs.items():
        assert ops.get(f"{KERNEL}{path}", **query) == ops.desk.get(f"/v0{path}", **query).json(), path
    assert ops.get(f"{KERNEL}/tools") == {"tools": ops.desk.get("/v0/tools").json(), "next_cursor": ""}


def test_an_approval_is_shown_as_the_kernel_door_shows_it(ops, work):
    path = f"/executions/{work.id}/approvals/{step(work, 'pay.refund')}"

    assert ops.get(f"{KERNEL}{path}") == ops.desk.get(f"/v0{path}").json()


def test_filters_and_pages_of_executions(ops):
    ids = [ops.desk.create("triage", labels={"team": "a"}) for _ in range(3)] + [ops.desk.create("other")]
    seen, cursor = [], ""
    while True:
        page = ops.get(f"{KERNEL}/executions", label="team:a", limit="2", **({"cursor": cursor} if cursor else {}))
        seen += [row["id"] for row in page["executions"]]
        if not (cursor := page["next_cursor"]):
            break

    assert sorted(seen) == sorted(ids[:3])
    assert [row["id"] for row in ops.get(f"{KERNEL}/executions", agent_id="other")["executions"]] == ids[3:]
    assert ops.get(f"{KERNEL}/executions", status="completed")["executions"] == []


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/executions", {"status": "dead"}),
        ("/executions", {"label": "no-colon"}),
        ("/executions", {"label": ["a:1", "a:2"]}),
        ("/executions", {"label": ["a:1", "b:1", "a:1"]}),
        ("/executions", {"limit": "0"}),
        ("/executions", {"limit": "201"}),
        ("/executions", {"limit": "51", "include": "reasons"}),
        ("/executions", {"include": "all"}),
        ("/executions", {"cursor": "?"}),
        ("/executions", {"created_after": "yesterday"}),
        ("/executions", {"unknown": "1"}),
        ("/executions", {"agent_id": "x" * 600}),
        ("/executions/x/events", {"after_sequence": "-1"}),
        ("/executions/x/events", {"limit": "1001"}),
        ("/approvals", {"state": "maybe"}),
        ("/approvals", {"cursor": "bm90LW91cnM"}),
        ("/agents", {"limit": "51"}),
        ("/runners", {"cursor": "%"}),
        ("/tools", {"cursor": "%"}),
        ("/policy", {"x": "1"}),
        ("/executions/x", {"x": "1"}),
    ],
)
def test_a_parameter_without_a_meaning_is_refused_in_the_doors_own_shape(ops, path, query):
    answer = ops.ask("viewer", "GET", f"{KERNEL}{path}", **query)

    assert (answer.status, answer.body["code"]) == (400, "bad_request")
    assert set(answer.body) == {"error", "code"}


def test_what_is_not_there_is_404(ops):
    for path in ("/executions/nope", "/executions/nope/approvals/nope"):
        assert ops.ask("viewer", "GET", f"{KERNEL}{path}").body["code"] == "not_found"
    assert ops.get(f"{KERNEL}/executions/nope/events") == {"events": [], "latest_sequence": 0}


def test_private_arguments_are_for_approvers_and_each_look_is_logged(ops, work):
    step_id = step(work, "mail.send", arguments={"text": SECRET})
    paths = (f"{KERNEL}/executions/{work.id}/events", f"{KERNEL}/executions/{work.id}/approvals/{step_id}")

    for path in paths:
        for name in ("viewer", "operator", "client"):
            assert SECRET not in str(ops.get(path, name))
        assert [line for line in ops.lines.outcomes if "shows" in line] == []
        assert SECRET in str(ops.get(path, "approver"))
        shown = [line for line in ops.lines.outcomes if "shows" in line]
        assert [(line["caller"], line["shows"], line["execution_id"]) for line in shown] == [
            ("approver", "private arguments", work.id)
        ]
        assert SECRET not in str(ops.lines.outcomes)
        ops.lines.outcomes.clear()


def test_a_look_at_what_is_not_private_is_no_such_line(ops, work):
    step_id = step(work, "pay.refund", arguments={"cents": 5})

    ops.get(f"{KERNEL}/executions/{work.id}/approvals/{step_id}", "approver")
    ops.get(f"{KERNEL}/executions/{work.id}/events", "approver")

    assert [line for line in ops.lines.outcomes if "shows" in line] == []


def test_reading_writes_nothing_even_of_an_execution_whose_time_is_over(ops, work):
    ops.desk.stage.clock.move(2 * 3_600)
    before = ops.desk.stage.state(work.id)

    shown = ops.get(f"{KERNEL}/executions/{work.id}")

    assert shown["status"] == "running"
    assert ops.desk.stage.state(work.id) == before
