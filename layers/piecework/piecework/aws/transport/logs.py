"""CloudWatch Logs' one operation that we use, in its own words."""

from typing import Any, ClassVar

from piecework.aws.transport.json_client import JsonClient


class Logs(JsonClient):
    """A client for one endpoint."""

    service = "logs"
    target = "Logs_20140328"
    headers: ClassVar = {"content-type": "application/x-amz-json-1.1"}
    answer_bytes = (
        16 * 1024 * 1024
    )  # a megabyte of lines, whose marks are escaped in the answer; an emulator gives more

    def filter_log_events(self, **given: Any) -> dict[str, Any]:
        """Some lines of a group between two moments that match a pattern, and where to go on."""
        return self._called("FilterLogEvents", given)
