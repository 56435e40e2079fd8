"""Uses the kernel's part of the operator's door in every way that needs a permission of its own."""

from typing import Any, Final

from piecework.ops.kernel.asking import MOST_LABELS
from piecework.ops.kernel_routes import EVALUATE, KERNEL
from piecework.webhooks.deliveries import Delivery, DeliveryState
from piecework.webhooks.store import kernel_deliveries
from tests.iam.kernel_driving import LABEL, LARGE

SECRET: Final = "ops-correct-horse-battery"


def act_on_the_kernel(console: Any, aws: Any) -> str:
    """Executions that are made, signalled, cancelled, run again and forgotten; an agent that is paused and resumed."""

    def do(path: str, status: int = 200, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {SECRET}-2"}
        answer = console.http.post(f"{KERNEL}/{path}", json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    why = {"reason": "a test of permissions"}
    labels = {f"{number}": LABEL for number in range(MOST_LABELS)}
    one = do("executions", 201, agent_id="ops-idle", input=LARGE, labels=labels)["id"]
    assert do("executions", 201, agent_id="echo", input={"n": 1})["status"] == "running"  # a hosted one: it is woken
    do(f"executions/{one}/signal", signal_type="go", payload=LARGE)
    do(f"executions/{one}/approvals/nope", 400, approved=True)
    do(f"executions/{one}/cancel")
    again = do(f"executions/{one}/again", 201, idempotency_key="k")["id"]
    counted = do("executions/cancel", agent_id="ops-idle")
    assert do("executions/cancel", agent_id="ops-idle", confirm=counted["count"], cursor=counted["cursor"])["cancelled"]
    assert do(f"executions/{one}/forget", **why)["forgotten"]["complete"]
    for verb in ("pause", "resume"):
        do(f"agents/{verb}", agent_id="ops-idle", **why)
    kept = Delivery(one, "a" * 32, "", b"{}", state=DeliveryState.GIVEN_UP, attempt=9, name="nobody")
    kernel_deliveries(aws.client("dynamodb"), "piecework-kernel").put(kept)
    path, bob = f"/ops/approvals/{one}/webhooks/{kept.event_id}/resend", {"Authorization": f"Bearer {SECRET}-2"}
    assert console.http.post(path, json=why).status_code == 403
    assert console.http.post(path, json=why, headers=bob).json()["was"] == "given_up"
    records = console.http.get("/ops/records").json()["items"]
    assert (records[0]["verb"], records[0]["by"]) == ("approval_webhook.resend", "bob")
    return str(again)


def look_at_the_kernel(console: Any, execution_id: str) -> None:
    one = f"executions/{execution_id}"
    lists = ("approvals?state=answered", "approvals", "agents", "runners", "tools", "policy", "find?id=nobody")
    hooks = ("webhooks", f"webhooks?execution_id={execution_id}", "webhooks?state=given_up")
    for path in (
        one,
        f"{one}/events",
        *lists,
        *hooks,
        "executions",
        "executions?agent_id=ops-idle",
        "executions?status=pending",
    ):
        answer = console.http.get(f"{KERNEL}/{path}")
        assert answer.status_code == 200, (path, answer.text)
    assert console.http.get(f"{KERNEL}/{one}").json()["input"] == LARGE
    assert console.http.get(f"{KERNEL}/{one}/approvals/nope").status_code == 404
    call = {"agent_id": "ops-idle", "tool_id": "mail.send"}
    assert console.http.post(EVALUATE, json=call).json()["decision"] == "allow"
    assert console.http.post(f"{KERNEL}/{one}/cancel", json={}).status_code == 403
    with console.http.stream("GET", f"{KERNEL}/{one}/stream") as stream:
        told = "".join(stream.iter_text())  # it has ended
    assert "event: execution.cancelled" in told and LARGE in told
    last = console.http.get(f"{KERNEL}/{one}/events?limit=1000").json()["latest_sequence"]
    assert console.http.get(f"{KERNEL}/{one}/stream?after_sequence={last}").status_code == 204
    assert console.http.put(f"{KERNEL}/{one}/stream").status_code == 405
