"""Systems Manager's one operation that we use, in its own words."""

from typing import Any, ClassVar

from piecework.aws.transport.json_client import JsonClient


class SSM(JsonClient):
    """A client for one endpoint."""

    service = "ssm"
    target = "AmazonSSM"
    headers: ClassVar = {"content-type": "application/x-amz-json-1.1"}

    def get_parameter(self, **given: Any) -> dict[str, Any]:
        """Read one parameter."""
        return self._called("GetParameter", given)
