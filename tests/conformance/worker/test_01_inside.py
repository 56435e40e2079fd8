"""Worker conformance, cases 7, 22, 30, 32 to 36, 47 to 49, 52, 67, 68: who is charged and served; clocks and fakes."""

import base64
import json
import threading
import time

import pytest

from piecework.errors import Unavailable, Unprocessable
from piecework.extend.executors import Artifact, Outcome, Refused, Retryable
from piecework.worker.payment.facilitator import HttpFacilitator, Kinds, unavailable
from piecework.worker.rates import Rate, Rates
from piecework.worker.record.states import State
from tests.support.crash import Crashed
from tests.support.worker.payments import header
from tests.support.worker.stage import BASE, BODY, FUNCTION_MS, NoListener, Stage, score

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


def failing(error):
    def run(task, run):
        raise error

    return run


def test_expired_contract(stage, stub):
    contract = stage.contract()
    stage.clock.now_ms = contract.deadline_ms

    for headers in ({}, stage.pay(contract)):
        answer = stage.post(contract, BODY, headers)
        assert answer.status == 410 and answer.body["error"]["code"] == "CONTRACT_EXPIRED"
    assert "PAYMENT-REQUIRED" not in answer.headers and stub.calls == []


def test_a_paid_short_task_is_done_in_the_first_request(stage, stub):
    contract = stage.contract()

    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 200, answer.text
    body = answer.body
    assert body["status"] == "completed" and body["contract_id"] == contract.contract_id
    assert [item["type"] for item in body["output"]["items"]] == ["file", "json"]
    assert body["deliverables"][0]["name"] == "plan.txt" and body["deliverables"][0]["size"] == 8
    assert body["metadata"]["attempt"] == 1 and body["metadata"]["sla_met"] is True
    assert body["payment"] == {
        "status": "settled",
        "transaction": answer.receipt["transaction"],
        "network": "eip155:8453",
        "payer": contract.seeker_wallet,
        "amount": "5000000",
    }
    assert answer.receipt["success"] is True and "error" not in body
    assert stage.charges() == 1 and stage.settles() == 1 and stub.count("verify") == 1
    assert list(stage.due.rows) == []
    assert [row.atomic for row in stage.executions.rows] == [50_000]
    assert stage.standing(contract).payment.document == ""


def test_replay_other_contract_while_the_payment_is_unspent(stage):
    first, second = stage.contract("slow"), stage.contract("slow")
    payment = stage.pay(first)
    stage.post(first, BODY, payment)

    answer = stage.post(second, BODY, payment)

    assert answer.status == 409 and answer.body["error"]["code"] == "PAYMENT_ALREADY_USED"


def test_verify_timeout(stub):
    hasty = Stage(stub, ports={"facilitator": HttpFacilitator(stub.url, verify_seconds=0.3)})
    patient = Stage(stub, clock=hasty.clock, ports={"contracts": hasty.contracts, "executions": hasty.executions})
    contract = hasty.contract()
    stub.say("verify", "hang", "ok")

    answer = hasty.post(contract, BODY, hasty.pay(contract))

    assert answer.status == 503 and answer.headers["Retry-After"] == "5"
    assert hasty.executions.read(contract.contract_id) is None
    assert patient.post(contract, BODY, patient.pay(contract)).status == 200


class Outrun:
    """A port one of whose calls fails, just after another process has served the same request."""

    def __init__(self, port, call, serve):
        self._port, self._call, self._serve = port, call, serve

    def __getattr__(self, name):
        return self._fail if name == self._call else getattr(self._port, name)

    def _fail(self, *_):
        self._serve()
        raise Unavailable("throttled") if self._call == "claim" else unavailable()


@pytest.mark.parametrize(("port", "call"), [("facilitator", "verify"), ("executions", "claim")])
def test_a_duplicate_that_is_out_of_luck_sees_what_its_twin_has_paid(stage, port, call):
    contract = stage.contract()
    served = []

    def serve():
        served.append(stage.post(contract, BODY, stage.pay(contract)))

    shared = {name: getattr(stage.worker, name) for name in ("contracts", "executions", "files", "texts")}
    twin = Stage(stage.stub, clock=stage.clock, ports=shared | {port: Outrun(getattr(stage.worker, port), call, serve)})

    answer = twin.post(contract, BODY, twin.pay(contract))

    assert answer.status == 200 and answer.body["task_id"] == served[0].body["task_id"]
    assert stage.charges() == 1 and len(stage.runs) == 1 and twin.runs == []


def test_verify_says_valid_work_fails(stage):
    contract = stage.contract()
    stage.do = failing(Refused("it cannot be done"))

    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 500 and answer.body["error"]["code"] == "EXECUTION_FAILED"
    assert answer.body["error"]["retryable"] is False and answer.body["payment"]["status"] == "not_charged"
    assert stage.settles() == 0
    again = stage.post(contract)
    assert (again.status, again.body) == (answer.status, answer.body)
    assert stage.standing(contract).payment.document == ""


def test_transient_then_success(stage):
    contract = stage.contract()
    stage.do = failing(Retryable("the model is busy"))
    first = stage.post(contract, BODY, stage.pay(contract))
    stage.do = score

    second = stage.post(contract)

    assert first.status == 503 and first.body["error"]["code"] == "EXECUTION_TRANSIENT"
    assert first.body["error"]["retries_remaining"] == 2 and first.body["error"]["retryable"] is True
    assert second.status == 200 and second.body["metadata"]["attempt"] == 2
    assert stage.settles() == 1 and second.body["task_id"] == first.body["task_id"]


def test_retry_budget(stage):
    contract = stage.contract()
    stage.do = failing(Retryable("the model is busy"))

    statuses = [stage.post(contract, BODY, stage.pay(contract)).status]
    statuses += [stage.post(contract).status for _ in range(3)]
    last = stage.post(contract, BODY, stage.pay(contract))

    assert statuses == [503, 503, 503, 409]
    assert last.status == 409 and last.body["error"]["code"] == "RETRIES_EXHAUSTED"
    assert stage.settles() == 0 and len(stage.runs) == 3
    assert stage.get(contract, last.body["task_id"]).body["error"]["retries_remaining"] == 0


def test_retry_after_authorization_lapsed(stage):
    contract = stage.contract()
    stage.do = failing(Retryable("the model is busy"))
    old = stage.payload(contract)
    stage.post(contract, BODY, {"PAYMENT-SIGNATURE": [header(old)]})
    stage.clock.move(stage.terms(contract).max_timeout_seconds)
    stage.do = score

    asked = stage.post(contract)
    stale = stage.post(contract, BODY, {"PAYMENT-SIGNATURE": [header(old)]})
    done = stage.post(contract, BODY, stage.pay(contract))

    assert asked.status == 402 and asked.body["details"]["reason"].endswith("_valid_before")
    assert asked.body["task_id"] == done.body["task_id"] and stale.status == 402
    assert done.status == 200 and done.body["metadata"]["attempt"] == 2
    nonce = old["payload"]["authorization"]["nonce"]
    assert stage.stub.count("settle", nonce) == 0 and stage.charges() == 1


def test_output_schema_violation(stage):
    contract = stage.contract()
    stage.do = lambda task, run: Outcome({"other": 1})

    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 500 and answer.body["error"]["code"] == "OUTPUT_SCHEMA_INVALID"
    assert "output" not in answer.body and stage.settles() == 0
    assert stage.state(contract) is State.FAILED_TRANSIENT


def test_an_executors_bug_is_told_without_its_text(stage):
    contract = stage.contract()
    stage.do = failing(RuntimeError("secret words"))

    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 500 and answer.body["error"]["code"] == "INTERNAL_ERROR"
    assert "secret words" not in answer.text


def test_different_body_same_contract(stage):
    contract = stage.contract("slow")
    first = stage.post(contract, {"brief": "b", "n": 1}, stage.pay(contract))

    same = stage.post(contract, b'{"n":1.0,  "brief":"b"}')
    other = stage.post(contract, {"brief": "c"})

    assert first.status == same.status == 202 and same.body["task_id"] == first.body["task_id"]
    assert other.status == 409 and other.body["error"]["code"] == "BODY_MISMATCH"
    assert first.body["task_id"] not in other.text and "payment" not in other.body


def test_invalid_input_new_generation(stage):
    contract = stage.contract()
    stage.do = failing(Unprocessable("brief: too short"))
    old = stage.payload(contract)
    refused = stage.post(contract, BODY, {"PAYMENT-SIGNATURE": [header(old)]})
    stage.do = score

    same = stage.post(contract)
    asked = stage.post(contract, {"brief": "a longer one"})
    reused = stage.post(contract, {"brief": "a longer one"}, {"PAYMENT-SIGNATURE": [header(old)]})
    done = stage.post(contract, {"brief": "a longer one"}, stage.pay(contract))

    assert refused.status == same.status == 422 and refused.body["error"]["code"] == "INVALID_INPUT"
    assert asked.status == 402 and reused.status == 409 and done.status == 200
    assert stage.stub.count("settle", old["payload"]["authorization"]["nonce"]) == 0
    assert stage.standing(contract).generation == 2


def test_a_contract_has_three_generations(stage):
    contract = stage.contract()
    stage.do = failing(Unprocessable("no"))

    statuses = [stage.post(contract, {"brief": str(n)}, stage.pay(contract)).status for n in range(4)]

    assert statuses == [422, 422, 422, 409]


def test_pending_shape(stage):
    contract = stage.contract("slow")

    answer = stage.post(contract, BODY, stage.pay(contract), {"Host": ["evil.example"]})

    assert answer.status == 202
    assert answer.body["status"] == "pending" and answer.body["payment"] == {"status": "authorized"}
    assert answer.body["poll_url"] == f"{BASE}/tasks/{answer.body['task_id']}"
    assert 2 <= int(answer.headers["Retry-After"]) <= 30 and answer.body["estimated_completion"].endswith("Z")
    assert stage.charges() == 0
    stage.settle_down()
    polled = stage.get(contract, answer.body["task_id"])
    assert polled.status == 200 and polled.body["status"] == "completed" and polled.receipt["success"] is True
    assert stage.settles() == 1


def test_a_failed_task_is_read_with_200_and_never_asks_for_payment(stage):
    contract = stage.contract()
    stage.do = failing(Refused("no"))
    task_id = stage.post(contract, BODY, stage.pay(contract)).body["task_id"]

    answer = stage.get(contract, task_id)

    assert answer.status == 200 and answer.body["status"] == "failed" and "PAYMENT-REQUIRED" not in answer.headers


def test_task_timeout_24h(stage):
    contract = stage.contract("slow")
    task_id = stage.post(contract, BODY, stage.pay(contract)).body["task_id"]

    def late(task, run):
        stage.clock.move(86_401)
        return score(task, run)

    stage.do = late
    stage.work_off()

    answer = stage.get(contract, task_id)
    assert answer.body["error"]["code"] == "TASK_TIMEOUT" and stage.settles() == 0
    assert stage.post(contract).status == 504 and stage.standing(contract).outcome.result is None


def test_deadline_missed(stage):
    from piecework.worker.contract.contracts import time_text

    contract = stage.contract("slow", terms__deadline=time_text(stage.clock() + 3_600_000))
    stage.post(contract, BODY, stage.pay(contract))
    stage.queue.clear()
    stage.clock.move(3_601)

    answer = stage.post(contract)

    assert answer.status == 504 and answer.body["error"]["code"] == "DEADLINE_MISSED"
    assert answer.body["payment"]["status"] == "not_charged"
    stage.settle_down(120)
    assert stage.settles() == 0 and len(stage.runs) == 0


def test_results_are_kept_for_their_days(stage):
    contract = stage.contract()
    task_id = stage.post(contract, BODY, stage.pay(contract)).body["task_id"]
    stage.clock.move(6.9 * 86_400)
    assert stage.post(contract).status == 200

    stage.clock.move(0.2 * 86_400)

    assert stage.post(contract).status == 410
    assert stage.get(contract, task_id).status == 404


@pytest.mark.parametrize(("then", "now", "kept"), [(30, 7, 30), (7, 30, 7), (90, 7, 90)])
def test_a_result_is_kept_for_the_days_that_were_promised_when_it_was_made(stub, then, now, kept):
    before = Stage(stub, rules={"result_days": then})
    contract = before.contract()
    before.post(contract, BODY, before.pay(contract))
    stores = {"contracts": before.contracts, "executions": before.executions, "files": before.files}
    after = Stage(stub, clock=before.clock, rules={"result_days": now}, ports=stores)

    after.clock.move((kept - 0.1) * 86_400)
    assert after.post(contract).status == 200
    after.clock.move(0.2 * 86_400)
    assert after.post(contract).status == 410


def test_facilitator_not_supported(stage, stub):
    contract = stage.contract()
    stub.say("supported", "none")

    for headers in ({}, stage.pay(contract)):
        answer = stage.post(contract, BODY, headers)
        assert answer.status == 503 and "PAYMENT-REQUIRED" not in answer.headers
    stub.say("supported", "ok")
    assert stage.post(contract).status == 402


def test_version_1_is_offered_only_where_it_can_be_settled(stub):
    stage = Stage(stub)
    kinds = stage.worker.facilitator.supported()
    newer = Stage(
        stub, ports={"contracts": stage.contracts, "facilitator": OfVersion2(stage.worker.facilitator, kinds)}
    )
    contract = stage.contract()

    assert "accepts" in stage.post(contract).body
    answer = newer.post(contract)

    assert answer.status == 402 and "PAYMENT-REQUIRED" in answer.headers
    assert "accepts" not in answer.body and answer.body["error"]["code"] == "PAYMENT_REQUIRED"


class OfVersion2:
    """A facilitator that settles payments of version 2 alone."""

    def __init__(self, real, kinds):
        self.real, self.kinds = real, Kinds(frozenset(kind for kind in kinds.served if kind[0] == 2))

    def __getattr__(self, name):
        return getattr(self.real, name)

    def supported(self):
        return self.kinds


def test_secrets_not_logged(stage, stub):
    contract, other = stage.contract(), stage.contract("slow")
    payments = [stage.pay(contract), stage.pay(other)]
    for record, payment in zip((contract, other), payments, strict=True):
        stage.post(record, BODY, payment)
        stage.post(record, BODY, payment)
    stub.say("settle", "fail:insufficient_funds")
    stage.settle_down()
    body = stage.post(contract).body

    logged = str(stage.log.lines) + str(stage.telemetry.lines) + repr(stage.standing(other))
    for payment in payments:
        sent = payment["PAYMENT-SIGNATURE"][0]
        document = json.loads(base64.b64decode(sent))
        assert sent not in logged and document["payload"]["signature"] not in logged
    assert body["deliverables"][0]["url"].partition("?")[2] not in logged


def test_version_1_payers_get_their_own_receipt_header(stage):
    contract = stage.contract()

    answer = stage.post(contract, BODY, stage.pay(contract, version=1))

    assert answer.status == 200 and "X-PAYMENT-RESPONSE" in answer.headers


def test_finished_work_without_time_to_settle_is_settled_by_the_queue(stage):
    contract = stage.contract()

    def takes_seconds(task, run):
        stage.clock.move(16)
        return score(task, run)

    stage.do = takes_seconds
    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.status == 202 and stage.state(contract) is State.RESULT_READY
    stage.settle_down()
    assert stage.state(contract) is State.COMPLETED and len(stage.runs) == 1


def test_upfront_payment_is_settled_before_the_work(stage):
    contract = stage.contract("upfront")
    seen = []
    stage.do = lambda task, run: (seen.append(stage.charges()), score(task, run))[1]

    answer = stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()

    assert answer.status == 202 and seen == [1]
    assert stage.state(contract) is State.COMPLETED and stage.post(contract).receipt["success"] is True


def test_work_that_fails_after_upfront_payment_is_owed_back(stage):
    contract = stage.contract("upfront")
    stage.do = failing(Refused("no"))

    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()

    assert stage.state(contract) is State.FAILED_PERMANENT
    assert [(row.kind, row.atomic) for row in stage.executions.rows] == [("refund_due", 5_000_000)]
    assert stage.post(contract, {"brief": "x"}).status == 409
    assert stage.standing(contract).settlement.status == "settled"


def test_work_that_was_paid_upfront_and_timed_out_is_owed_back_and_says_so(stage):
    contract = stage.contract("upfront")
    stage.do = failing(Retryable("the model is busy"))
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()
    stage.clock.move(86_401)

    answer = stage.post(contract)

    assert answer.status == 504 and answer.body["payment"]["status"] == "settled"
    assert "owed back" in answer.body["error"]["message"] and "nothing" not in answer.body["error"]["message"]
    assert [row.kind for row in stage.executions.rows] == ["refund_due"]


def test_an_upfront_payment_that_is_not_taken_is_asked_for_again(stage, stub):
    stub.say("settle", "fail:insufficient_funds", "ok")
    contract = stage.contract("upfront")
    stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()
    assert stage.post(contract).status == 402 and stage.runs == []

    again = stage.post(contract, BODY, stage.pay(contract))
    stage.settle_down()

    assert again.status == 202 and stage.state(contract) is State.COMPLETED and stage.charges() == 1


def test_an_upfront_payment_that_was_not_sent_is_sent_when_due(stage, stub):
    stub.say("settle", "401", "ok")
    contract = stage.contract("upfront")
    stage.post(contract, BODY, stage.pay(contract))
    stage.work_off()
    assert stage.state(contract) is State.EXECUTING and stage.runs == []

    stage.settle_down(60)

    assert stage.state(contract) is State.COMPLETED and stage.charges() == 1 and stage.settles() == 2


def test_a_partial_result_is_delivered_and_charged_only_where_the_contract_accepts_it(stage):
    stage.do = lambda task, run: Outcome({"score": 1}, is_partial=True)
    strict, lenient = stage.contract(), stage.contract(terms__accept_partial=True)

    refused = stage.post(strict, BODY, stage.pay(strict))
    taken = stage.post(lenient, BODY, stage.pay(lenient))

    assert refused.status == 500 and refused.body["error"]["code"] == "EXECUTION_FAILED"
    assert taken.status == 200 and taken.body["status"] == "partial" and taken.body["final"] is True
    assert stage.state(lenient) is State.PARTIAL_FINAL and stage.charges() == 1
    assert stage.post(lenient).body["status"] == "partial"


def test_progress_is_passed_on_with_its_task(stub):
    seen = []

    class Heard(NoListener):
        def progress(self, execution, pct, text):
            seen.append((execution.task_id, pct, text))

    stage = Stage(stub, ports={"listener": Heard()})
    contract = stage.contract()

    def tells(task, run):
        run.progress(50, "half")
        return score(task, run)

    stage.do = tells
    answer = stage.post(contract, BODY, stage.pay(contract))

    assert seen == [(answer.body["task_id"], 50, "half")]


@pytest.mark.parametrize("careless", [False, True], ids=["plain", "catching every exception"])
def test_a_task_longer_than_one_run_goes_on_in_the_next_within_its_attempt(stage, careless):
    contract = stage.contract("slow", sla__max_latency_ms=3_600_000)
    stage.post(contract, BODY, stage.pay(contract))
    done = []

    def chain(task, run):
        for number in range(5):
            try:
                run.step(f"part {number}", lambda number=number: done.append(number) or stage.clock.move(400))
            except Exception:
                if not careless:
                    raise
        return Outcome({"score": len(done)})

    stage.do = chain
    runs = 0
    while stage.state(contract) is State.EXECUTING:
        assert stage.standing(contract).lease.token == ""  # or it would count as a run that was lost
        stage.worker.resume.drive(stage.queue.pop(0), stage.clock() + FUNCTION_MS)
        runs += 1

    answer = stage.post(contract)
    assert runs == 3 and done == [0, 1, 2, 3, 4]
    assert answer.status == 200 and answer.body["output"]["content"] == {"score": 5}
    assert answer.body["metadata"]["attempt"] == 1 and answer.body["metadata"]["execution_time_ms"] == 2_000_000
    assert stage.standing(contract).attempt.crashes == 0 and stage.settles() == 1


def test_a_step_is_recorded_once_for_an_attempt_that_runs_again(stage):
    contract = stage.contract("slow")
    stage.post(contract, BODY, stage.pay(contract))
    drawn = []

    def dies_once(task, run):
        value = run.step("draw", lambda: drawn.append(1) or "drawn")
        if len(stage.runs) == 1:
            raise Crashed
        return Outcome({"score": value})

    stage.do = dies_once
    with pytest.raises(Crashed):
        stage.work_off()
    stage.settle_down(120)

    assert stage.post(contract).body["output"]["content"] == {"score": "drawn"} and drawn == [1]


def test_a_contracts_rate_is_used_up_by_requests_about_its_own_task_alone(stub):
    rates = Rates(per_contract=Rate(1, 2), clock=lambda: 5.0)
    stage = Stage(stub, ports={"rates": rates})
    contract = stage.contract()
    guesses = [stage.get(contract, "task_" + "A" * 26).status for _ in range(5)]
    strangers = [stage.post("ctr_unknown", BODY).status for _ in range(5)]

    own = [stage.post(contract).status for _ in range(3)]

    assert guesses == strangers == [404] * 5 and own == [402, 402, 429]


def test_many_files_of_a_task_are_looked_for_at_once(stub):
    stage = Stage(stub)
    contract = stage.contract(task__output_schema={})
    stage.do = lambda task, run: Outcome(1, deliverables=[Artifact(f"{n}.txt", b"x", "text/plain") for n in range(30)])
    task_id = stage.post(contract, BODY, stage.pay(contract)).body["task_id"]
    looking, most, lock, exists = [0], [0], threading.Lock(), stage.files.exists

    def slow(key):
        with lock:
            looking[0] += 1
            most[0] = max(most[0], looking[0])
        time.sleep(0.01)
        with lock:
            looking[0] -= 1
        return exists(key) and not key.endswith("007")

    stage.files.exists = slow
    entries = stage.get(contract, task_id).body["deliverables"]

    assert 2 <= most[0] <= 10 and len(entries) == 30
    assert [entry["name"] for entry in entries if "url" not in entry] == ["7.txt"]
