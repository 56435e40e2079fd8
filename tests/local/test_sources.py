"""Queues and schedules invoke functions as the template says and as AWS does."""

import json
from pathlib import Path

import pytest

from local import aws
from local.gateway.routes import QueueSource, ScheduleSource, api_of
from local.gateway.sources import _failures
from local.template import Template
from tests.support.machine import wait_until

BUNDLE = Path(__file__).parent / "sources" / "template.yaml"
TEMPLATE = Template.load(BUNDLE)


@pytest.fixture(scope="module")
def edge(gateway, embedded_aws):
    aws.provision(TEMPLATE, embedded_aws.endpoint)
    return gateway(api="SourcesApi", template=BUNDLE)


@pytest.fixture
def sqs(embedded_aws):
    return embedded_aws.client("sqs")


def url_of(sqs, logical):
    return sqs.get_queue_url(QueueName=TEMPLATE.physical_name(logical))["QueueUrl"]


def send(sqs, logical, body):
    sqs.send_message(
        QueueUrl=url_of(sqs, logical),
        MessageBody=body,
        MessageAttributes={"kind": {"DataType": "String", "StringValue": "test"}},
    )


def waiting(sqs, logical):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url_of(sqs, logical), AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


def taken(edge, body):
    return [record for record in edge.http.get("/taken").json() if record["body"] == body]


def test_a_message_is_taken_once_and_deleted(edge, sqs):
    send(sqs, "Jobs", "one")

    wait_until(lambda: taken(edge, "one") and waiting(sqs, "Jobs") == 0)

    [record] = taken(edge, "one")
    assert record["eventSource"] == "aws:sqs"
    assert record["eventSourceARN"] == "arn:aws:sqs:us-east-1:000000000000:piecework-jobs"
    assert record["messageAttributes"]["kind"]["stringValue"] == "test"
    assert record["messageAttributes"]["kind"]["dataType"] == "String"
    assert record["attributes"]["ApproximateReceiveCount"] == "1"


def test_a_message_that_was_not_taken_comes_back_alone_and_ends_as_a_dead_letter(edge, sqs):
    dead = waiting(sqs, "DeadJobs")
    for body in ("fail-a", "good-a"):
        send(sqs, "Jobs", body)

    wait_until(lambda: waiting(sqs, "DeadJobs") == dead + 1)

    assert len(taken(edge, "fail-a")) == 2  # as often as the queue allows
    assert len(taken(edge, "good-a")) == 1


def test_without_failure_reports_a_batch_that_ends_is_taken(edge, sqs):
    send(sqs, "Whole", "fail-b")

    wait_until(lambda: taken(edge, "fail-b") and waiting(sqs, "Whole") == 0)
    assert len(taken(edge, "fail-b")) == 1


def test_a_function_that_fails_has_taken_nothing(edge, sqs):
    dead = waiting(sqs, "DeadJobs")
    send(sqs, "Jobs", "raise")

    wait_until(lambda: waiting(sqs, "DeadJobs") == dead + 1)

    assert len(taken(edge, "raise")) == 2


def chain(edge, name):
    bodies = [json.loads(record["body"]) for record in edge.http.get("/taken").json() if record["body"][0] == "{"]
    return [body["left"] for body in bodies if body.get("chain") == name]


def test_a_chain_of_messages_ends_after_sixteen_invocations_unless_its_function_allows_loops(edge, sqs):
    for logical in ("Loop", "Allowed"):
        send(sqs, logical, json.dumps({"chain": logical, "left": 19}))

    wait_until(lambda: len(chain(edge, "Allowed")) == 20 and waiting(sqs, "DeadLoop") == 1)

    assert chain(edge, "Allowed") == list(range(19, -1, -1))
    assert chain(edge, "Loop") == list(range(19, 3, -1))
    assert "LoopFunction has been in one chain of messages 16 times" in edge.logged()


def test_a_webhooks_ladder_of_nine_tries_needs_more_invocations_than_a_chain_may_have():
    """A try waits for up to twelve hours, a message for a quarter of one: most invocations only wait on."""
    from local.gateway.lambdas.lineage import LONGEST_CHAIN
    from tests.support.worker.ladder import climb

    allowed, stopped = climb(may_loop=True), climb(may_loop=False)

    assert (allowed.tries, allowed.state) == (9, "given_up")
    assert allowed.invocations > 75
    assert (stopped.invocations, stopped.state) == (LONGEST_CHAIN, "pending")
    assert stopped.tries < 9


@pytest.mark.parametrize("answer", [b"no JSON", b"[1]", b'"text"', b'{"batchItemFailures":[{}]}', b"3"])
def test_an_answer_that_is_none_takes_nothing(answer):
    assert _failures(answer) is None


@pytest.mark.parametrize("answer", [b"null", b"{}", b'{"batchItemFailures":null}', b'{"batchItemFailures":[]}'])
def test_an_answer_without_failures_takes_all(answer):
    assert _failures(answer) == frozenset()


def test_only_functions_of_the_same_door_are_invoked():
    api = api_of(TEMPLATE, "SourcesApi")

    jobs, whole, hourly, loop, allowed = api.sources
    assert jobs == QueueSource("TakerFunction", "arn:aws:sqs:us-east-1:000000000000:piecework-jobs", 5, True)
    assert (whole.batch_size, whole.reports_failures) == (10, False)
    assert (loop.may_loop, allowed.may_loop) == (False, True)
    assert (loop.at_once, allowed.at_once) == (None, 2)
    assert hourly == ScheduleSource("TakerFunction", "Hourly", 7_200)
