"""The operator's door of this release shows what release 7a1e751 has stored by its ids, and its lists lack it."""

import hashlib
from uuid import uuid4

import pytest

from piecework.durable.pieces import piece_key
from piecework.ops.listing import DAY_MS
from piecework.webhooks.deliveries import KEPT_SECONDS
from tests.support.fakes import START_MS, FakeClock
from tests.support.stored.doors import ops_door
from tests.support.stored.stack import new_stack, stored

WORKER = stored("worker")
TASKS = {name: row["pk"]["S"].removeprefix("EXEC#") for name, row in WORKER["executions"].items()}
PIECES = [row["pk"]["S"] for row in stored("running")["results"] if "state" in row]
STEPS = [row["pk"]["S"] for row in stored("running")["results"] if "state" not in row]
[VERIFIED] = {piece["item"]["pk"]["S"] for piece in stored("pieces")["items"]}
PAYER, WORKS = "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A", "0x00000000000000000000000000000000000000fe"
SINCE = {"since_ms": str(START_MS - DAY_MS)}
NOT_TAKEN = "the work is done, but the payment was not taken; sign a new one to get the result"
LARGE = b'{"candidate_output":{"answer":"long"},"evidence_inline":[],"evidence_refs":[]}'


@pytest.fixture(scope="module")
def stack(embedded_aws):
    made = new_stack(embedded_aws)
    pointer = next(row["pointer"]["S"] for row in stored("running")["results"] if "pointer" in row)
    embedded_aws.client("s3").put_object(Bucket=made.bucket, Key=pointer, Body=LARGE)
    return made


@pytest.fixture
def door(stack):
    with ops_door(stack, FakeClock(START_MS + 1_000)) as asking:
        yield asking


@pytest.mark.parametrize(
    ("what", "query"),
    [
        ("pieces", {}),
        ("pieces", {"state": "done"}),
        ("pieces", {"caller": "kernel"}),
        ("tasks", {}),
        ("tasks", {"state": "UNKNOWN"}),
        ("tasks", {"payment": "settled"}),
        ("contracts", {}),
        ("contracts", {"state": "SIGNED"}),
        ("records", {}),
    ],
)
def test_lists_by_time_lack_what_was_stored_before_they_were_made(door, what, query):
    assert door.get(f"/ops/{what}", **SINCE, **query) == (200, {"items": [], "next": None})


def a_piece(key, state, expires_at_ms=1_800_086_400_000, **known):
    unknown = dict.fromkeys(("caller", "executor", "task_id", "execution_id", "attempt_id", "claimed_at_ms"))
    nothing = {"failure": None, "output": None, "evidence_refs": [], "evidence_inline_count": 0, "forgotten": None}
    steps = {"steps": [], "has_more_steps": False}
    own = {"key": key, "state": state, "is_lapsed": False, "expires_at_ms": expires_at_ms}
    return {**unknown, **nothing, **steps, **own, **known}


def an_output(text):
    return {"digest": f"sha256:{hashlib.sha256(text).hexdigest()}", "size_bytes": len(text)}


@pytest.mark.parametrize(
    ("name", "state", "known"),
    [
        ("done", "done", {"output": an_output(b'{"answer":"yes"}')}),
        ("large", "done", {"output": an_output(b'{"answer":"long"}')}),
        ("failed", "failed", {"failure": {"code": "refused", "message": "no"}}),
        ("released", "released", {"failure": {"code": "unavailable", "message": "the model is busy"}}),
        ("running", "running", {}),
    ],
)
def test_a_piece_is_found_by_its_ids_and_by_its_key(door, name, state, known):
    found = door.get("/ops/piece", caller="kernel", task_id="task", execution_id=name, attempt_id="a")

    key = piece_key("runtime", "kernel", "task", name, "a")
    assert key in PIECES
    assert found == (200, a_piece(key, state, **known))
    assert door.get(f"/ops/pieces/{key}") == found


def test_a_piece_without_an_answer_says_so(door):
    assert door.get(f"/ops/pieces/{VERIFIED}") == (200, a_piece(VERIFIED, "done", 4_102_444_800_000))


@pytest.mark.parametrize("key", STEPS)
def test_a_step_is_no_piece(door, key):
    assert door.get(f"/ops/pieces/{key}").status == 404
    assert door.get(f"/ops/pieces/{key}/evidence/{'a' * 64}").status == 404


def a_task(name, state, payment, **known):
    row = WORKER["executions"][name]["record"]["S"]
    nonce = row.partition('"claim_key":"')[2].partition('"')[0].rpartition("/")[2]
    transaction = row.partition('"transaction":"')[2].partition('"')[0]
    receipt = {"network": "eip155:8453", "payer": PAYER, "success": True, "transaction": transaction}
    refused = receipt | {"success": False, "errorReason": "insufficient_funds"}
    return {
        "contract_id": TASKS[name],
        "state": state,
        "payment": payment,
        "executor": "probe",
        "generation": 1,
        "attempt": 1,
        "attempts": 3,
        "created_at_ms": START_MS,
        "finished_at_ms": None,
        "is_in_doubt": state == "UNKNOWN",
        "is_owed_back": False,
        "debts": [],
        "forgotten": None,
        "next_look_at_ms": None,
        "looks": 0,
        "network": "eip155:8453",
        "atomic": None if payment in ("settled", "failed") else "5000000",  # of a payment that is kept
        "failure": None,
        "payer": PAYER,
        "nonce": nonce,
        "valid_before_ms": START_MS + 900_000,
        "claim": {"settled": "spent", "failed": "released"}.get(payment, "active"),
        "transactions_named": [],
        "receipt": {"settled": receipt, "failed": refused}.get(payment),
        "resolution": None,
        "moves": [],
        "has_more_moves": False,
        "webhooks": [],
        "has_more_webhooks": False,
        **known,
    }


def failure(code, message):
    return {"failure": {"code": code, "message": message}}


ENDED, LATER, SOON = {"finished_at_ms": START_MS}, {"next_look_at_ms": 1_800_086_400_000}, {"looks": 1}
SOON |= {"next_look_at_ms": START_MS + 30_000}
HASHES = {"transactions_named": ["0xf2eacc2e9d86ce0e52bf462e5c0fa8616d104cc203042a865b76110b90a645df"]}
SHOWN = {
    "completed": ("COMPLETED", "settled", ENDED),
    "ended by refused payments": ("FAILED_PERMANENT", "failed", ENDED | failure("PAYMENT_FAILED", NOT_TAKEN)),
    "executing": (
        *("EXECUTING", "authorized"),
        {"executor": "slow", "next_look_at_ms": START_MS + 60_000, "valid_before_ms": START_MS + 1_200_000},
    ),
    "failed after its payment": (
        *("FAILED_PERMANENT", "settled"),
        ENDED | failure("EXECUTION_FAILED", "no") | {"executor": "upfront", "is_owed_back": True},
    ),
    "failed for now": ("FAILED_TRANSIENT", "authorized", LATER | failure("EXECUTION_TRANSIENT", "busy")),
    "failed for now after its payment": (
        *("FAILED_TRANSIENT", "settled"),
        LATER | failure("EXECUTION_TRANSIENT", "no") | {"executor": "upfront"},
    ),
    "unknown and charged": ("UNKNOWN", "settling", SOON),
    "unknown with a hash": ("UNKNOWN", "settling", SOON | HASHES),
    "unknown without a hash": ("UNKNOWN", "settling", SOON),
    "unpaid": ("UNPAID", "failed", LATER | failure("PAYMENT_FAILED", NOT_TAKEN)),
    "unresolved": ("UNKNOWN", "unresolved", {"looks": 7}),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_found_by_its_contract_without_moves_that_nobody_kept(door, name):
    state, payment, known = SHOWN[name]

    owed = {"debts": [a_debt(name)]} if known.get("is_owed_back") else {}
    assert door.get(f"/ops/tasks/{TASKS[name]}") == (200, a_task(name, state, payment, **known, **owed))


def test_a_contract_that_nobody_has_paid_for_has_no_task(door):
    signed = WORKER["contracts"]["with a webhook's secret"]["pk"]["S"]

    assert door.get(f"/ops/tasks/{signed}").status == 404


def an_owed_row(name, kind, atomic, wallet):
    task = a_task(name, "", "settled")
    owed = {"kind": kind, "contract_id": TASKS[name], "generation": 1, "atomic": atomic, "at_ms": START_MS}
    owed |= {"network": "eip155:8453", "transaction": task["receipt"]["transaction"], "wallet": wallet}
    digest = hashlib.sha256(owed["transaction"].encode()).hexdigest()[:16]
    return owed | {"debt": f"{START_MS}-1-{digest}" if kind == "refund_due" else None, "refund": None}


def a_debt(name):
    owed = an_owed_row(name, "refund_due", "5000000", PAYER)
    return {member: value for member, value in owed.items() if member not in ("kind", "contract_id")}


def test_the_ledger_of_the_day_shows_what_became_owed_and_no_move_that_nobody_kept(door):
    found = door.get("/ops/ledger", day="2027-01-15")

    totals = {"received": "0", "platform_fee_due": "150000", "refund_due": "5000000"}
    totals |= {"refunded": "0", "still_owed_back": "5000000"}
    assert found == (
        200,
        {
            "day": "2027-01-15",
            "received": [],
            "owed": [
                an_owed_row("failed after its payment", "platform_fee_due", "50000", WORKS),
                an_owed_row("failed after its payment", "refund_due", "5000000", PAYER),
                an_owed_row("failed for now after its payment", "platform_fee_due", "50000", WORKS),
                an_owed_row("completed", "platform_fee_due", "50000", WORKS),
            ],
            "refunds": [],
            "totals_atomic": {"eip155:8453": totals},
            "is_complete": None,
            "complete_from": None,
            "without_amount": 0,
        },
    )
    assert door.get("/ops/ledger") == found
    assert door.get("/ops/ledger", day="2027-01-14").body["owed"] == []


def test_a_webhook_is_shown_with_its_task_and_sent_again(embedded_aws):
    """The stored webhook is of a contract whose record was not stored, so it stands at another's here."""
    stack, name = new_stack(embedded_aws), TASKS["completed"]
    kept = {"expires_at": {"N": str(START_MS // 1000 + KEPT_SECONDS)}}  # the stored one ends with the clock's start
    row = WORKER["deliveries"]["completed"] | {"pk": {"S": f"WEBHOOK#{name}"}} | kept
    embedded_aws.client("dynamodb").put_item(TableName=stack.work, Item=row)
    event = row["sk"]["S"]
    queue = embedded_aws.client("sqs").create_queue(QueueName=f"old-{uuid4().hex}")["QueueUrl"]

    with ops_door(stack, FakeClock(START_MS + 1_000), PIECEWORK_WEBHOOK_QUEUE_URL=queue) as door:
        shown = door.get(f"/ops/tasks/{name}").body["webhooks"]
        sent = door.post(f"/ops/tasks/{name}/webhooks/{event}/resend", {"reason": "they lost it"})
        [record] = door.get("/ops/records", **SINCE).body["items"]

    head = {"event_id": event, "host": "seeker.example", "state": "pending", "attempt": 1, "tries": []}
    assert shown == [head]
    assert (sent.status, sent.body["was"], sent.body["is_asked_for"]) == (200, "pending", True)
    assert (record["record_id"], record["target"], record["by"]) == (sent.body["record_id"], f"{name}/{event}", "ann")
    [message] = embedded_aws.client("sqs").receive_message(QueueUrl=queue)["Messages"]
    assert event in message["Body"]
