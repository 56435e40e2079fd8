"""Worker specification 3.2 as amended: who works for a contract, and that nobody ever works in another's name."""

from dataclasses import replace

import pytest

from piecework.errors import Unprocessable
from piecework.extend.executors import Outcome, Retryable
from piecework.worker.record.states import State
from tests.support.worker.machine import running_worker
from tests.support.worker.stage import BODY, Stage, score

pytestmark = pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")


def after_a_deployment(stage, **changes):
    """The same worker after its operator deployed something else."""
    shared = {name: getattr(stage.worker, name) for name in ("contracts", "executions", "due_times", "files", "texts")}
    return Stage(stage.stub, clock=stage.clock, ports=shared, **changes)


UNKNOWN = [["nobody"], ["slow", "nobody"], ["a text that is free", "prbe"]]


@pytest.mark.parametrize("requirements", UNKNOWN)
def test_a_contract_for_an_executor_that_is_not_here_is_refused_before_anybody_pays(stub, requirements):
    stage = Stage(stub)
    contract = stage.contract(task__requirements=requirements)

    unpaid = stage.post(contract)
    paid = stage.post(contract, BODY, {"PAYMENT-SIGNATURE": ["e30="]})

    for answer in (unpaid, paid):
        assert (answer.status, answer.body["error"]["code"]) == (422, "CONTRACT_INVALID")
        assert answer.body["error"]["details"] == {"rule": "V15"} and "PAYMENT-REQUIRED" not in answer.headers
        assert requirements[-1] in answer.body["error"]["message"]
        assert all(name in answer.body["error"]["message"] for name in ("probe", "slow", "upfront"))
    assert stage.runs == [] and stub.count("verify") == 0


@pytest.mark.parametrize("requirements", [[], ["Python 3", "fast, please"], ["SLOW"]])
def test_a_contract_that_names_nobody_is_for_the_chosen_executor_and_for_nobody_where_none_was_chosen(
    stub, requirements
):
    chosen, undecided = Stage(stub), Stage(stub, default="")
    contract = chosen.contract(task__requirements=requirements)
    undecided.contracts.put(contract)

    assert chosen.post(contract).status == 402
    refused = undecided.post(contract)
    assert (refused.status, refused.body["error"]["details"]) == (422, {"rule": "V15"})


@pytest.mark.parametrize("chosen", ["slow", "upfront"])
def test_another_input_is_paid_by_the_terms_of_who_works_on_it_now(stub, chosen):
    before = Stage(stub)
    contract = before.contract(task__requirements=[])
    before.do = refusing
    assert before.post(contract, BODY, before.pay(contract)).status == 422
    stage = after_a_deployment(before, default=chosen)

    other = {"brief": "another one"}
    asked = stage.post(contract, other)
    answer = stage.post(contract, other, stage.pay(contract))

    assert (asked.status, answer.status) == (402, 202)
    stage.settle_down(60)
    assert stage.get(contract, answer.body["task_id"]).body["status"] == "completed"
    assert stage.standing(contract).executor == chosen and stage.charges() == 1


def test_nobody_is_asked_for_another_payment_while_nobody_can_do_the_work(stub):
    before = Stage(stub)
    contract = before.contract()
    before.do = not_now
    assert before.post(contract, BODY, before.pay(contract)).status == 503
    before.clock.now_ms += 2_000_000  # the authorization is too old for another attempt
    assert before.post(contract).status == 402
    stage = after_a_deployment(before, default="slow", without=("probe",))
    verified = stub.count("verify")

    answers = stage.post(contract), stage.post(contract, BODY, before.pay(contract))

    for answer in answers:
        assert (answer.status, answer.body["error"]["code"]) == (500, "EXECUTION_FAILED")
        assert "PAYMENT-REQUIRED" not in answer.headers and "does not run" in answer.body["error"]["message"]
    assert stub.count("verify") == verified
    assert after_a_deployment(stage).post(contract).status == 402  # and again where it is back


def test_nobody_is_asked_to_pay_before_work_that_nobody_can_do(stub):
    before = Stage(stub)
    contract = before.contract("upfront")
    stub.say("settle", "fail:insufficient_funds")
    before.post(contract, BODY, before.pay(contract))
    before.settle_down(60)
    assert before.post(contract).status == 402
    stage = after_a_deployment(before, default="slow", without=("upfront",))

    answers = stage.post(contract), stage.post(contract, BODY, before.pay(contract))

    assert [(answer.status, answer.body["error"]["code"]) for answer in answers] == [(500, "EXECUTION_FAILED")] * 2
    assert after_a_deployment(stage).post(contract).status == 402


def test_a_contract_for_an_executor_that_cannot_be_loaded_is_told_to_come_again(stub):
    stage = Stage(stub)
    contract = stage.contract(task__requirements=["bent"])
    later = after_a_deployment(stage)
    later.worker.cases.__dict__["offer"] = replace(later.worker.cases.offer, broken=("bent",))

    answer = later.post(contract)

    assert (answer.status, answer.body["error"]["code"]) == (503, "EXECUTION_TRANSIENT")
    assert "bent cannot be loaded" in answer.body["error"]["message"] and int(answer.headers["Retry-After"]) > 0
    assert stub.count("verify") == 0 and later.executions.read(contract.contract_id) is None


def not_now(task, run):
    raise Retryable("later")


def refusing(task, run):
    raise Unprocessable("no")


def test_the_first_name_of_several_works(stub):
    stage = Stage(stub, default="")
    contract = stage.contract(task__requirements=["in English", "upfront", "probe"])

    assert stage.post(contract, BODY, stage.pay(contract)).status == 202
    stage.settle_down(60)

    answer = stage.post(contract)
    assert (answer.status, answer.body["metadata"].get("executor")) == (200, "upfront")


@pytest.mark.parametrize("executor", ["slow", "upfront"])
def test_a_task_whose_executor_was_undeployed_after_the_claim_fails_unpaid(stub, executor):
    stage = Stage(stub)
    contract = stage.contract(executor)
    task_id = stage.post(contract, BODY, stage.pay(contract)).body["task_id"]

    later = after_a_deployment(stage, without=("slow", "upfront"))
    pending = later.get(contract, task_id)
    later.queue.extend(stage.queue)
    later.settle_down(180)

    assert pending.status == 200 and pending.body["status"] == "pending"
    told = later.get(contract, task_id).body
    assert (told["status"], told["error"]["code"]) == ("failed", "EXECUTION_FAILED")
    assert told["payment"] == {"status": "not_charged"} and told["metadata"]["model_used"] == executor
    assert later.runs == stage.runs == [] and stage.charges() == 0 and later.state(contract) is State.FAILED_PERMANENT


def test_work_that_was_paid_and_whose_executor_is_gone_is_owed_back(stub):
    stage = Stage(stub)
    contract = stage.contract("upfront")
    stage.post(contract, BODY, stage.pay(contract))

    def dies(task, run):
        raise SystemExit

    stage.do = dies
    with pytest.raises(SystemExit):
        stage.work_off()
    stage.clock.move(20)
    later = after_a_deployment(stage, without=("upfront",))
    later.settle_down(180)

    assert later.state(contract) is State.FAILED_PERMANENT and stage.charges() == 1
    assert [row.kind for row in stage.executions.rows].count("refund_due") == 1


def test_a_retry_of_a_task_whose_executor_is_gone_fails_unpaid(stub):
    stage = Stage(stub)
    contract = stage.contract("slow")

    def fails(task, run):
        raise Retryable("busy")

    stage.do = fails
    stage.post(contract, BODY, stage.pay(contract))
    stage.work_off()
    later = after_a_deployment(stage, without=("slow",))
    later.post(contract)
    later.settle_down(60)

    assert later.state(contract) is State.FAILED_PERMANENT and stage.charges() == 0 and later.runs == []


def test_a_result_is_settled_although_its_executor_is_gone(stub):
    stage = Stage(stub)
    contract = stage.contract("slow")
    stub.say("settle", "fail:insufficient_funds", "ok")
    stage.post(contract, BODY, stage.pay(contract))
    stage.work_off()
    unpaid = stage.post(contract)
    later = after_a_deployment(stage, without=("slow",))

    asked = later.post(contract)
    done = later.post(contract, BODY, stage.pay(contract))

    assert (unpaid.status, asked.status, done.status) == (402, 402, 200)
    assert asked.headers["PAYMENT-REQUIRED"] == unpaid.headers["PAYMENT-REQUIRED"]
    assert stage.charges() == 1 and done.body["metadata"]["model_used"] == "slow"


def test_an_answer_names_the_executor_and_the_model_that_worked(stub):
    stage = Stage(stub)
    contract = stage.contract()

    def notes(task, run):
        run.note(model="m-1")
        return Outcome({"score": 1})

    stage.do = notes
    answer = stage.post(contract, BODY, stage.pay(contract))

    assert answer.body["metadata"]["model_used"] == "m-1" and answer.body["metadata"].get("executor") == "probe"


def test_a_new_input_goes_on_without_the_first_ones_executor_only_by_name(stub):
    stage = Stage(stub)
    contract = stage.contract("slow")
    stage.do = score
    later = after_a_deployment(stage, without=("slow",))

    refused = later.post(contract, BODY, stage.pay(contract))

    assert (refused.status, refused.body["error"]["details"]) == (422, {"rule": "V15"}) and stub.count("verify") == 0


def test_registration_the_402_and_the_manifest_list_the_same_executors(gateway, tmp_path):
    with running_worker(gateway, PIECEWORK_PARAM_WorkerDefaultExecutor=None) as worker:
        manifest = worker.http.get("/manifest").json()
        names = [each["name"] for each in manifest["capabilities"]]
        refused = {name: worker.register(name) for name in ("refund_desk", "nobody", None)}
        taken = worker.contract("echo")
        asked = worker.execute(taken, {}, pay=False)

    assert {"echo", "completion", "steady"} <= set(names) and "refund_desk" not in names
    assert not any(each["default"] for each in manifest["capabilities"])
    for answer in refused.values():
        assert answer.status_code == 422 and answer.json()["error"]["details"] == {"rule": "V15"}, answer.text
        assert all(name in answer.json()["error"]["message"] for name in names)
    assert asked.status_code == 402
