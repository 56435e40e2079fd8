"""One contract for the ages of messages, on the fake and on the embedded AWS's own metrics, by either client."""

import time
from uuid import uuid4

import pytest

from piecework.aws.through_botocore import BotocoreClients
from piecework.aws.transport.failures import ServiceRefused
from piecework.errors import PieceworkError, RequestRejected, Unavailable
from piecework.ops.ages import Age, Ages
from piecework.ops.store.queue_ages import METRIC, NAMESPACE, WINDOW_SECONDS, QueueAges
from tests.support.ops.metrics import FakeMetrics

NOW_MS = time.time_ns() // 1_000_000
HOST = "https://sqs.eu-central-1.amazonaws.com/000000000000"


class Fake:
    def __init__(self, request):
        self.client = FakeMetrics()

    def tell(self, queue, ago_seconds, age):
        self.client.age(queue, NOW_MS // 1000 - ago_seconds, age)


class Embedded:
    def __init__(self, request):
        aws = request.getfixturevalue("embedded_aws")
        self.client, self._writer = aws.clients.cloudwatch, aws.client("cloudwatch")

    def tell(self, queue, ago_seconds, age):
        """The emulator takes a namespace that AWS keeps for itself."""
        datum = {
            "MetricName": METRIC,
            "Dimensions": [{"Name": "QueueName", "Value": queue}],
            "Timestamp": NOW_MS // 1000 - ago_seconds,
            "Value": age,
        }
        self._writer.put_metric_data(Namespace=NAMESPACE, MetricData=[datum])


class ThroughBotocore(Embedded):
    def __init__(self, request):
        super().__init__(request)
        variables = request.getfixturevalue("embedded_aws").variables
        for name, value in variables.items():  # botocore reads those of the process
            request.getfixturevalue("monkeypatch").setenv(name, value)
        self.client = BotocoreClients(variables).cloudwatch


@pytest.fixture(params=[Fake, Embedded, ThroughBotocore])
def metrics(request):
    return request.param(request)


def ages(metrics, *queues):
    urls = {queue: (f"{HOST}/{queue}", f"{HOST}/{queue}-dead") for queue in queues}
    return QueueAges(lambda: metrics.client, urls, lambda: NOW_MS)()


def test_the_newest_age_of_each_queue_and_of_its_dead_letters_is_told(metrics):
    one, other, silent = (f"{name}-{uuid4()}" for name in ("one", "other", "silent"))
    for ago_seconds, age in ((600, 5.0), (60, 65.9), (300, 900.0)):
        metrics.tell(one, ago_seconds, age)
    metrics.tell(f"{one}-dead", 60, 86_400.0)
    metrics.tell(other, 60, 0.0)

    assert ages(metrics, one, other, silent) == {one: Age(65, 86_400), other: Age(0, None), silent: Age(None, None)}


def test_what_is_older_than_a_quarter_of_an_hour_is_not_told_as_the_present(metrics):
    queue = f"idle-{uuid4()}"
    metrics.tell(queue, WINDOW_SECONDS + 60, 7.0)

    assert ages(metrics, queue) == {queue: Age(None, None)}


class TestOneRequest:
    def setup_method(self):
        self.metrics = Fake(None)

    def test_all_queues_are_asked_for_in_one_request_and_no_queue_in_none(self):
        ages(self.metrics, *"abcdefg")

        [asked] = self.metrics.client.asked
        assert len(asked["MetricDataQueries"]) == 14
        assert asked["EndTime"] - asked["StartTime"] == WINDOW_SECONDS
        assert ages(self.metrics) == {} and len(self.metrics.client.asked) == 1

    @pytest.mark.parametrize(
        ("code", "error"),
        [("Throttling", Unavailable), ("InternalServiceError", Unavailable), ("AccessDenied", RequestRejected)],
    )
    def test_a_refusal_is_the_door_s_own_error_and_the_status_has_no_ages(self, code, error):
        refusal = ServiceRefused(code, operation="GetMetricData")
        self.metrics.client.failures += [refusal, refusal]

        with pytest.raises(error):
            ages(self.metrics, "a")
        read = QueueAges(lambda: self.metrics.client, {"a": (f"{HOST}/a", f"{HOST}/b")}, lambda: NOW_MS)
        assert Ages(read, lambda: NOW_MS)() == {}

    @pytest.mark.parametrize(
        "answer",
        [
            {},
            {"MetricDataResults": None},
            {"MetricDataResults": [None]},
            {"MetricDataResults": [{"Id": "q0"}]},
            {"MetricDataResults": [{"Id": [], "Timestamps": [], "Values": []}]},
            {"MetricDataResults": [{"Id": "q0", "Timestamps": [1, "a"], "Values": [1, 2]}]},
        ],
    )
    def test_an_answer_that_cannot_be_read_is_an_error_of_the_service(self, answer):
        self.metrics.client.answer = answer

        with pytest.raises(PieceworkError):
            ages(self.metrics, "a")

    @pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan"), "5", None, [1]])
    def test_a_value_that_is_no_age_is_unknown(self, value):
        self.metrics.client.answer = {"MetricDataResults": [{"Id": "q0", "Timestamps": [1], "Values": [value]}]}

        assert ages(self.metrics, "a") == {"a": Age(None, None)}
