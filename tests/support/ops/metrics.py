"""CloudWatch's metrics in memory, the newest value first; it takes what the real one takes."""

import re
from dataclasses import dataclass, field
from typing import Any

from piecework.aws.transport.failures import ServiceRefused

ID = re.compile(r"[a-z][A-Za-z0-9_]{0,254}")


@dataclass
class FakeMetrics:
    """Ages of messages by queue and minute."""

    answer: Any = None  # instead of a right one
    failures: list[ServiceRefused] = field(default_factory=list)  # of the next requests
    asked: list[dict[str, Any]] = field(default_factory=list)
    _points: dict[str, dict[int, float]] = field(default_factory=dict)

    def age(self, queue: str, at_seconds: int, age_seconds: float) -> None:
        """SQS tells the age of the oldest message of a queue."""
        minutes = self._points.setdefault(queue, {})
        minute = at_seconds // 60 * 60
        minutes[minute] = max(age_seconds, minutes.get(minute, 0))

    def get_metric_data(self, **given: Any) -> Any:
        self.asked.append(given)
        if self.failures:
            raise self.failures.pop(0)
        if self.answer is not None:
            return self.answer
        self._check(given)
        return {"MetricDataResults": [self._result(query, given) for query in given["MetricDataQueries"]]}

    def _check(self, given: dict[str, Any]) -> None:
        ids = [query["Id"] for query in given["MetricDataQueries"]]
        is_right = (
            given.keys() == {"MetricDataQueries", "StartTime", "EndTime", "ScanBy"}
            and 1 <= len(ids) <= 500
            and len(set(ids)) == len(ids)
            and all(map(ID.fullmatch, ids))
            and given["StartTime"] < given["EndTime"]
        )
        if not is_right:
            raise ServiceRefused("ValidationError", operation="GetMetricData")

    def _result(self, query: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        stat = query["MetricStat"]
        metric, [dimension] = stat["Metric"], stat["Metric"]["Dimensions"]
        assert (metric["Namespace"], metric["MetricName"]) == ("AWS/SQS", "ApproximateAgeOfOldestMessage")
        assert (dimension["Name"], stat["Period"], stat["Stat"]) == ("QueueName", 60, "Maximum")
        points = self._points.get(dimension["Value"], {})
        shown = sorted((at for at in points if given["StartTime"] <= at < given["EndTime"]), reverse=True)
        return {
            "Id": query["Id"],
            "Label": dimension["Value"],
            "Timestamps": shown,
            "Values": [float(points[at]) for at in shown],
            "StatusCode": "Complete",
        }
