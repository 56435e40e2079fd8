"""The ages of queues' oldest messages, as SQS tells them to CloudWatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from piecework.aws.failing import aws_errors
from piecework.errors import Unavailable
from piecework.ops.ages import Age, ReadsAges

if TYPE_CHECKING:
    from piecework.aws.transport.cloudwatch import CloudWatch

THE_METRICS: Final = "CloudWatch"
PERIOD_SECONDS: Final = 60
WINDOW_SECONDS: Final = 900  # a queue that was not in use comes back to CloudWatch within a quarter of an hour
NAMESPACE: Final = "AWS/SQS"
METRIC: Final = "ApproximateAgeOfOldestMessage"


class QueueAges(ReadsAges):
    """The newest value of each queue, at most 15 minutes old; `urls` are a queue's own and that of its dead letters."""

    def __init__(
        self,
        cloudwatch: Callable[[], CloudWatch],
        urls: Mapping[str, tuple[str, str]],
        clock: Callable[[], int],
    ) -> None:
        self._cloudwatch, self._urls, self._clock = cloudwatch, urls, clock

    def __call__(self) -> Mapping[str, Age]:
        if not self._urls:
            return {}
        names = [url.rpartition("/")[2] for pair in self._urls.values() for url in pair]
        end = (self._clock() // 1000 // PERIOD_SECONDS + 1) * PERIOD_SECONDS
        with aws_errors(THE_METRICS):
            answer = self._cloudwatch().get_metric_data(
                MetricDataQueries=[_query(f"q{number}", name) for number, name in enumerate(names)],
                StartTime=end - WINDOW_SECONDS,
                EndTime=end,
                ScanBy="TimestampDescending",
            )
        try:
            found = {result["Id"]: _newest(result) for result in answer["MetricDataResults"]}
        except (KeyError, TypeError) as error:
            raise Unavailable("CloudWatch's answer cannot be read; try again") from error
        ages = [found.get(f"q{number}") for number in range(len(names))]
        return {name: Age(*ages[2 * place : 2 * place + 2]) for place, name in enumerate(self._urls)}


def _query(query_id: str, queue: str) -> dict[str, Any]:
    dimension = {"Name": "QueueName", "Value": queue}
    metric = {"Namespace": NAMESPACE, "MetricName": METRIC, "Dimensions": [dimension]}
    return {"Id": query_id, "MetricStat": {"Metric": metric, "Period": PERIOD_SECONDS, "Stat": "Maximum"}}


def _newest(result: Mapping[str, Any]) -> int | None:
    """The newest value; an emulator does not order them as it was asked to."""
    points = [*zip(result["Timestamps"], result["Values"], strict=False)]
    if not points:
        return None
    _, value = max(points)
    return int(value) if isinstance(value, int | float) and isfinite(value) and value >= 0 else None
