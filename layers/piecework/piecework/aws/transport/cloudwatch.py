"""CloudWatch's one operation that we use, in its own words."""

from typing import Any, ClassVar

from piecework.aws.transport.json_client import JsonClient


class CloudWatch(JsonClient):
    """A client for one endpoint. Moments are epoch seconds, in what is given and in answers."""

    service = "monitoring"
    target = "GraniteServiceVersion20100801"
    headers: ClassVar = {"content-type": "application/x-amz-json-1.0", "x-amzn-query-mode": "true"}

    def get_metric_data(self, **given: Any) -> dict[str, Any]:
        """Values of metrics between two moments."""
        return self._called("GetMetricData", given)
