"""Worker conformance, cases 2, 3, 13 to 18, 23, 29, 69: wrong payments, stock clients, a real EVM."""

import threading

import pytest

from piecework.worker.chain.rpc import RpcChain
from piecework.worker.payment.facilitator import HttpFacilitator
from piecework.worker.record.states import State
from tests.support.worker.evm import real_evm
from tests.support.worker.front import fronting, real_time_stage
from tests.support.worker.payments import SEEKER, STRANGER_KEY, WORKER
from tests.support.worker.seekers import CLIENTS, pay
from tests.support.worker.stage import BODY

PRICE = 5_000_000
VALUE = "invalid_exact_evm_payload_authorization_value_mismatch"
RECIPIENT = "invalid_exact_evm_payload_recipient_mismatch"
REQUIREMENTS = "invalid_payment_requirements"


def refused(stage, **changes):
    """Pay a fresh contract wrongly: the reason that the 402 gives; nobody was asked, nothing is bound."""
    contract = stage.contract()
    answer = stage.post(contract, BODY, stage.pay(contract, **changes))
    assert answer.status == 402 and answer.body["code"] == "PAYMENT_INVALID" and "PAYMENT-REQUIRED" in answer.headers
    assert stage.stub.calls == [] or {call["call"] for call in stage.stub.calls} == {"supported"}
    assert stage.is_free(contract)
    return answer.body["details"]["reason"]


@pytest.mark.needs("FACILITATOR")
def test_under_payment(stage):
    assert refused(stage, value="4999999") == VALUE


@pytest.mark.needs("FACILITATOR")
def test_over_payment(stage):
    assert refused(stage, value="5000001") == VALUE


@pytest.mark.needs("FACILITATOR")
def test_atomic_vs_decimal(stage):
    assert refused(stage, accepted={"amount": "5"}) == REQUIREMENTS
    assert refused(stage, value="5") == VALUE


@pytest.mark.needs("FACILITATOR")
def test_wrong_pay_to(stage):
    assert refused(stage, to=SEEKER) == RECIPIENT
    assert refused(stage, accepted={"payTo": SEEKER}) == REQUIREMENTS


@pytest.mark.needs("FACILITATOR")
def test_wrong_network(stage):
    assert refused(stage, accepted={"network": "eip155:84532"}, domain={"chainId": 84532}) == REQUIREMENTS


@pytest.mark.needs("FACILITATOR")
def test_wrong_asset(stage, stub):
    other = "0x" + "2" * 40
    contract = stage.contract()
    assert refused(stage, accepted={"asset": other}) == REQUIREMENTS

    signed_for_other = stage.post(contract, BODY, stage.pay(contract, domain={"verifyingContract": other}))

    assert signed_for_other.status == 402
    assert signed_for_other.body["details"]["reason"] == "invalid_exact_evm_payload_signature"
    assert stub.count("settle") == 0


@pytest.mark.needs("FACILITATOR")
def test_wrong_payer(stage, stub):
    contract = stage.contract()

    answer = stage.post(contract, BODY, stage.pay(contract, key=STRANGER_KEY))

    assert answer.status == 403 and answer.body["error"]["code"] == "CONTRACT_MISMATCH"
    assert "PAYMENT-REQUIRED" not in answer.headers
    assert stub.count("verify") == stub.count("settle") == 0


@pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")
@pytest.mark.parametrize("client", CLIENTS)
def test_stock_clients_pay(stub, client):
    stage = real_time_stage(stub)
    contract = stage.contract()

    with fronting(stage) as front:
        made = pay(client, front.url, {"X-Contract-ID": contract.contract_id}, BODY)

    [answer] = made.answers
    assert answer.status == 200, answer
    assert answer.json()["status"] == "completed" and answer.json()["payment"]["status"] == "settled"
    assert answer.receipt()["success"] is True and answer.receipt()["payer"].lower() == SEEKER.lower()
    assert front.with_payment == [False, True]
    assert stub.count("settle", made.signed[0].lower()) == 1 and stage.charges() == 1


@pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")
@pytest.mark.parametrize("client", [client for client in CLIENTS if client != "v1"])  # version 1 has no default cap
def test_default_cap_refused_client_side(stub, client):
    stage = real_time_stage(stub)
    contract = stage.contract()

    with fronting(stage) as front:
        made = pay(client, front.url, {"X-Contract-ID": contract.contract_id}, BODY, cap=None)

    assert made.answers[0].error and made.signed == []
    assert front.with_payment == [False]


@pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")
@pytest.mark.parametrize("executor", ["probe", "slow"])
@pytest.mark.parametrize("client", ["httpx", "fetch"])
def test_second_client_call_does_not_repay(stub, client, executor):
    """`slow` is still running when it is called again, `probe` is done."""
    stage = real_time_stage(stub)
    contract = stage.contract(executor)
    status = 200 if executor == "probe" else 202

    with fronting(stage) as front:
        made = pay(client, front.url, {"X-Contract-ID": contract.contract_id}, BODY, times=2)
    stage.settle_down()

    assert [answer.status for answer in made.answers] == [status, status]
    assert len({answer.json()["task_id"] for answer in made.answers}) == 1
    assert len(made.signed) == 1
    assert front.with_payment == [False, True, False]
    assert stage.state(contract) is State.COMPLETED and stage.charges() == 1


@pytest.fixture(scope="module")
def evm():
    with real_evm("base") as running:
        yield running


@pytest.mark.inside("runs the worker's own parts over stores and clocks of the test's")
class TestRealEvm:
    """Case 69: the stock facilitator's own logic, and money that really moves, once."""

    @pytest.fixture
    def real(self, evm, stub):
        evm.control(settle="ok")
        evm.mint(SEEKER, PRICE - evm.balance(SEEKER))
        chain = RpcChain(evm.rpc_url)
        ports = {"facilitator": HttpFacilitator(evm.url), "chain_of": lambda network: chain}
        return real_time_stage(stub, ports=ports)

    @pytest.mark.parametrize(
        "client", [pytest.param(client, marks=() if client == "httpx" else pytest.mark.slow) for client in CLIENTS]
    )
    def test_real_evm_settle(self, evm, real, client):
        """Case 2 for every client; then 25: the same payment again moves nothing."""
        contract, before = real.contract(), evm.balance(WORKER)

        with fronting(real) as front:
            made = pay(client, front.url, {"X-Contract-ID": contract.contract_id}, BODY, times=2)
        replayed = real.post(contract, BODY, real.pay(contract))

        assert [answer.status for answer in made.answers] == [200, 200], made.answers
        assert made.answers[0].receipt() == made.answers[1].receipt() == replayed.receipt
        assert len(made.signed) == 1
        assert evm.balance(WORKER) - before == PRICE and evm.balance(SEEKER) == 0

    def test_real_evm_settle_duplicate_storm(self, evm, real):
        """Case 28."""
        contract, before, answers = real.contract(), evm.balance(WORKER), []
        payment = real.pay(contract)
        callers = [
            threading.Thread(target=lambda: answers.append(real.post(contract, BODY, payment))) for _ in range(30)
        ]

        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        real.settle_down(300)  # thirty signature checks may outlast a settlement's patience: it is found out then

        assert {answer.status for answer in answers} <= {200, 202}
        assert len({answer.body["task_id"] for answer in answers}) == 1
        assert real.state(contract) is State.COMPLETED and len(real.runs) == 1
        assert evm.balance(WORKER) - before == PRICE

    def test_real_evm_settle_timeout_after_charge(self, evm, real):
        """Case 39: the answer is lost, the money is not."""
        contract, before = real.contract(), evm.balance(WORKER)
        evm.control(settle="lost")

        answer = real.post(contract, BODY, real.pay(contract))
        meanwhile = real.post(contract)
        real.settle_down(300)

        assert answer.status == meanwhile.status == 202
        assert real.state(contract) is State.COMPLETED
        assert real.post(contract).receipt["success"] is True
        assert evm.balance(WORKER) - before == PRICE
