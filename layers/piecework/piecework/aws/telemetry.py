"""Outcome lines (Powertools Logger) and counts (CloudWatch EMF); never bodies, secrets or signed links."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from json import JSONEncoder
from time import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.metrics import Metrics

ENCODER: Final = JSONEncoder(
    default=str, separators=(",", ":"), ensure_ascii=False
)  # made once; json.dumps makes one a line
FIELD_CHARACTERS: Final = 200  # caller-supplied texts are cut to this in a line
# Names that a line has already; logging raises for most of them. A field so named gets an underscore behind it.
TAKEN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "level", "timestamp", "service"}


class LambdaTelemetry:
    """One per environment; also the `log` that executors get.

    Powertools takes 30 ms to import. With the environment's variables given, what first needs it imports it; without
    them it is imported now, which suits functions that count something in every request.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        if env is None:
            self._service, self._level = self._logger.service, self._logger.log_level
            self._namespace = self._metrics.namespace or ""
        else:
            self._service = env.get("POWERTOOLS_SERVICE_NAME", "service_undefined")
            self._namespace = env.get("POWERTOOLS_METRICS_NAMESPACE", "")
            named = env.get("POWERTOOLS_LOG_LEVEL", "INFO").upper()
            self._level = logging.getLevelNamesMapping().get(named, logging.INFO)

    @cached_property
    def _logger(self) -> Logger:
        from aws_lambda_powertools import Logger

        return Logger(
            location=None,  # it would always be this module
            json_serializer=ENCODER.encode,
            json_deserializer=str,  # events are names; to try and read each as JSON costs more than to write the line
            utc=True,
            use_rfc3339=True,
        )

    @cached_property
    def _metrics(self) -> Metrics:
        from aws_lambda_powertools.metrics import Metrics

        return Metrics()

    def load(self) -> None:
        """Import now what logs and counts, for functions that count something in every request."""
        self._logger, self._metrics  # noqa: B018

    def outcome(self, name: str, facts: Mapping[str, Any], counts: Mapping[str, int]) -> None:
        """Write the request's one line, and its counts when there are any.

        The line is what the Logger would write, made here because every request pays for it: 10 µs instead of 60.
        """
        if self._level <= logging.INFO:
            made = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"level": "INFO", "message": name, "timestamp": made, "service": self._service}
            fields = _cut({key: value for key, value in facts.items() if value is not None})
            print(ENCODER.encode(line | fields), flush=True)
        for metric, value in counts.items():
            self._metrics.add_metric(name=metric, unit="Count", value=value)
        if counts:
            self._metrics.flush_metrics()

    def count(self, metrics: tuple[str, ...]) -> None:
        """Count one of each without dimensions, so that an alarm reads one sum over the functions of a stack.

        Powertools would add the service, which makes a metric of each function.
        """
        named = [{"Name": metric, "Unit": "Count"} for metric in metrics]
        where: Mapping[str, Any] = {"Namespace": self._namespace, "Dimensions": [[]], "Metrics": named}
        format_ = {"Timestamp": int(time() * 1000), "CloudWatchMetrics": [where]}
        print(ENCODER.encode({"_aws": format_, **dict.fromkeys(metrics, 1)}), flush=True)

    def bug(self, name: str) -> None:
        """Write the exception being handled, with its traceback."""
        self._logger.exception(f"{name}_bug")

    def info(self, event: str, /, **fields: Any) -> None:
        self._logger.info(event, extra=_cut(fields))

    def warning(self, event: str, /, **fields: Any) -> None:
        self._logger.warning(event, extra=_cut(fields))


def _cut(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{key}_" if key in TAKEN else key: value[:FIELD_CHARACTERS] if isinstance(value, str) else value
        for key, value in fields.items()
    }
