"""Secrets Manager's one operation that we use, in its own words."""

from typing import Any, ClassVar

from piecework.aws.transport.json_client import JsonClient


class SecretsManager(JsonClient):
    """A client for one endpoint."""

    service = "secretsmanager"
    target = "secretsmanager"
    headers: ClassVar = {"content-type": "application/x-amz-json-1.1"}

    def get_secret_value(self, **given: Any) -> dict[str, Any]:
        """Read one secret."""
        return self._called("GetSecretValue", given)
