"""No text of a task, of an executor's refusal or bug, or of somebody else's answer reaches a log.

Logs are kept longer than tasks and read by more people. What they hold instead: codes, statuses, places in the code.
"""

import json
from types import SimpleNamespace

import pytest

from executors.completion import completion
from local.model_server import INNER_TEXT, ModelServer
from piecework.errors import PieceworkError, Refused, Retryable, Unprocessable, UpstreamFailed
from piecework.net.fetching import Fetcher
from piecework.runtime.door import serve
from piecework.webhooks.deliveries import Delivery, Try
from piecework.webhooks.sending import Sender
from piecework.worker.chain.exchange import Endpoint
from tests.support.fakes import START_MS, FakeClock
from tests.support.kernel.hosted_stage import HostedHouse, an_executor
from tests.support.misbehaving import answering, last
from tests.support.quiet import QuietLog
from tests.support.runtime.completions import HeardLog, a_run, a_task, settings
from tests.support.runtime.flows import FlowBench
from tests.support.worker.hooks import FakeDeliveries, FakeQueue

DELIVERY = Delivery("ctr_demo01", "evt_0001", "https://seeker.example/hooks/hire", b"{}")
SECRET = "my mother's maiden name is Swordfish"


def quoting(kind):
    def fails(task, run):
        raise kind(f"cannot answer: {SECRET}")

    return fails


class Lines:
    """Telemetry that keeps its lines."""

    def __init__(self):
        self.lines = []

    def outcome(self, name, facts, counts):
        self.lines.append((name, dict(facts)))

    def bug(self, name):
        self.lines.append((name, {}))


@pytest.mark.parametrize("kind", [Refused, Retryable, UpstreamFailed, Unprocessable])
def test_the_runtimes_outcome_line_has_the_code_of_a_refusal_and_not_its_text(kind):
    lines = Lines()

    def respond(request):
        raise kind(f"cannot answer: {SECRET}")

    event = {"httpMethod": "POST", "resource": "/execute", "path": "/execute", "headers": {}, "requestContext": {}}
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 1_000)

    answer = serve("execute", respond, event, context, lines)

    ((_, facts),) = lines.lines
    assert facts["code"] == kind.code and facts["status"] == answer["statusCode"]
    assert SECRET not in str(facts)
    assert SECRET in json.loads(answer["body"])["error"]  # the caller knows what it sent


def test_a_bug_of_an_executor_leaves_its_kind_and_its_place():
    bench = FlowBench(quoting(ValueError))

    with pytest.raises(Exception, match="the runtime's log has the reason"):
        bench.execute()

    ((event, fields),) = bench.log.lines
    assert (event, fields["exception"]) == ("executor_failed", "ValueError")
    assert "test_log_texts.py" in fields["where"] and "in fails" in fields["where"]
    assert SECRET not in str(fields)


def test_a_bug_of_a_hosted_agent_leaves_its_kind_and_its_place():
    house, log = HostedHouse(), QuietLog()
    house.executors["desk"] = an_executor("desk", quoting(KeyError))
    execution_id = house.begin("desk")

    house.look(execution_id, log=log)

    (fields,) = [fields for event, fields in log.lines if event == "executor_failed"]
    assert fields["exception"] == "KeyError" and "in fails" in fields["where"]
    assert SECRET not in str(log.lines)


@pytest.fixture
def model_server(monkeypatch):
    with ModelServer(key="k-secret") as server:
        for name, value in settings(server.url).items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.parametrize(
    ("word", "status", "code"),
    [("error:400", 400, "upstream_failed"), ("throttled", 429, "unavailable"), ("refusal", None, "refused")],
)
def test_a_models_refusal_leaves_its_status_and_none_of_its_words(model_server, word, status, code):
    log = HeardLog()
    model_server.follow([word])

    with pytest.raises((Refused, Retryable)):
        completion(a_task(prompt=SECRET), a_run(log=log))

    calls = [fields for event, fields in log.lines if event == "outgoing_call_failed"]
    assert {(fields["to"], fields.get("status")) for fields in calls} == ({("model", status)} if status else set())
    assert [fields["code"] for event, fields in log.lines if event == "completion_failed"] == [code]
    for said in (INNER_TEXT, SECRET, "k-secret"):
        assert said not in str(log.lines)


def test_a_models_misfit_leaves_one_word():
    log = HeardLog()
    with answering(last(json.dumps({"choices": [{"message": {"content": SECRET}}]}).encode())) as server:
        values = settings(f"{server.url}/v1", REPAIRS="0")
        with pytest.MonkeyPatch.context() as patched:
            for name, value in values.items():
                patched.setenv(name, value)
            with pytest.raises(Refused):
                completion(a_task({"type": "object", "required": ["n"]}), a_run(log=log))

    ((event, fields),) = log.lines
    assert (event, fields["reason"], fields["model_calls"]) == ("completion_failed", "misfit", 1)
    assert SECRET not in str(fields)


class Warned(list):
    """Hears what a caller of strangers says."""

    def __call__(self, event, /, **fields):
        self.append((event, fields))


SAID = f"no, because you said {SECRET}"
REFUSALS = {
    "a facilitator's word": (400, {"error": "invalid_request", "message": SAID}, "invalid_request"),
    "a facilitator's type": (401, {"errorType": "unauthorized", "errorMessage": SAID}, "unauthorized"),
    "a verdict": (200, {"isValid": False, "invalidReason": "insufficient_funds", "note": SAID}, "insufficient_funds"),
    "a settlement": (200, {"success": False, "errorReason": "nonce_used", "note": SAID}, "nonce_used"),
    "a node's number": (200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32005, "message": SAID}}, "-32005"),
    "a model's code": (400, {"error": {"code": "context_length_exceeded", "message": SAID}}, "context_length_exceeded"),
    "a text instead of a code": (500, {"error": SAID, "code": SAID}, None),
    "a page": (503, SAID, None),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_service_refuses_is_logged_by_status_and_code(name):
    status, document, reason = REFUSALS[name]
    warned = Warned()
    with answering(last(json.dumps(document).encode(), status)) as server:
        Endpoint(server.url, to="facilitator", warn=warned).exchange("POST", "/settle", {"secret": SECRET}, {}, 20)

    ((event, fields),) = warned
    assert event == "outgoing_call_failed"
    assert fields == {"to": "facilitator", "status": status} | ({"reason": reason} if reason else {})


def test_what_goes_well_leaves_no_line():
    warned = Warned()
    with answering(last(b'{"success":true,"status":"settled","type":"x"}')) as server:
        Endpoint(server.url, warn=warned).exchange("POST", "/settle", {}, {}, 20)
        Fetcher(allow=lambda address: True, warn=warned).get(f"{server.url}/x")

    assert warned == []


def test_a_call_that_brought_no_answer_says_what_broke_and_whether_it_was_sent():
    warned = Warned()
    with answering(b"") as server:
        Endpoint(server.url, to="node", warn=warned).exchange("POST", "", {}, {}, 20)
    Endpoint(server.url, to="node", warn=warned).exchange("POST", "", {}, {}, 20)

    assert [(fields["to"], fields["reason"], fields["sent"]) for _, fields in warned] == [
        ("node", "RemoteProtocolError", True),
        ("node", "ConnectionRefusedError", False),
    ]


def test_evidence_that_cannot_be_had_is_logged_by_host_without_its_path():
    warned = Warned()
    with answering(last(b"", 403)) as server:
        fetcher = Fetcher(resolve=lambda host, port: ["127.0.0.1"], allow=lambda address: True, warn=warned)
        fetcher.get(f"http://evidence.test:{server.port}/{SECRET.replace(' ', '-')}?token=t")

    assert warned == [("outgoing_call_failed", {"to": "evidence", "host": "evidence.test", "status": 403})]


def test_a_webhook_that_is_not_taken_is_logged_with_its_ids():
    warned, deliveries = Warned(), FakeDeliveries()
    deliveries.put(DELIVERY)
    post, clock = (lambda url, body, headers: 500), FakeClock(START_MS)
    sender = Sender(deliveries, post, FakeQueue(), clock, warn=warned, owner="contract_id")

    sender.handle(Try("ctr_demo01", "evt_0001"))

    told = {"to": "webhook", "status": 500, "contract_id": "ctr_demo01", "event_id": "evt_0001", "attempt": 1}
    assert warned == [("outgoing_call_failed", told)]


def test_every_caller_of_strangers_is_given_the_functions_log_and_its_counts(monkeypatch):
    """What a caller is told and the log does not hold does not help an operator."""
    from bench.worker.hiring import variables
    from piecework.runtime.wiring import RuntimeDoor
    from piecework.worker.chain.networks import BASE
    from piecework.worker.wiring import WorkerDoor

    given = {"PIECEWORK_TABLE": "t", "PIECEWORK_BUCKET": "b", "AWS_REGION": "us-east-1"}
    given |= variables("HireFunction", "https://worker.example.com", "http://127.0.0.1:9")
    for name, value in {**given, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    log = QuietLog()

    runtime = RuntimeDoor()
    vars(runtime)["telemetry"] = log

    worker = WorkerDoor()
    vars(worker)["telemetry"] = log
    with pytest.raises(PieceworkError):
        worker.facilitator.supported()
    with pytest.raises(PieceworkError):
        worker.chain_of(BASE).latest()
    with pytest.raises(PieceworkError):
        runtime.fetcher.get("http://127.0.0.1/")

    told = [fields["to"] for event, fields in log.lines if event == "outgoing_call_failed"]
    assert told == ["facilitator", "node", "evidence"]
    worker.counts.strange()
    assert log.counted == {"SettlementAlarm": 1}
