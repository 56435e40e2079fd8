"""The worker door's own base URL: the setting, else the API's id and stage as API Gateway itself states them.

    url = PublicUrl.of(settings.public_base_url, os.environ)
    url.learn(event["requestContext"])     # with each request
    f"{url}/tasks/{task_id}"

The template cannot tell a function the address of the API that refers to it. An API has one address, so what the first
request teaches holds for all. A caller can write neither the id nor the stage; `Host` is never looked at.
"""

from collections.abc import Mapping
from typing import Final, Self

from piecework.errors import SettingsError
from piecework.jsons import Json

SUFFIX: Final = "PIECEWORK_URL_SUFFIX"


class PublicUrl:
    """A base URL without a trailing slash, perhaps not known before the first request; `str` gives it."""

    def __init__(self, given: str, region: str = "", suffix: str = "amazonaws.com") -> None:
        self._url = given
        self._host = f"execute-api.{region}.{suffix}"

    @classmethod
    def of(cls, given: str, env: Mapping[str, str]) -> Self:
        """The setting where it says something, else what requests will tell."""
        return cls(given, env.get("AWS_REGION", ""), env.get(SUFFIX) or "amazonaws.com")

    def learn(self, context: Mapping[str, Json]) -> None:
        """Take the address from a request's context, unless it is known."""
        api, stage = context.get("apiId"), context.get("stage")
        if not self._url and api and stage:
            self._url = f"https://{api}.{self._host}/{stage}"

    def __str__(self) -> str:
        if not self._url:
            raise SettingsError("set PUBLIC_BASE_URL: no request has told the door's address")
        return self._url
