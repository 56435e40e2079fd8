"""One API of template.yaml: its routes, functions, authorizer, binary types and gateway responses."""

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from local.template import Template

INTEGRATION_TIMEOUT_MS: Final = 29_000  # a REST API's default for an integration
FUNCTION_TIMEOUT_SECONDS: Final = 3  # Lambda's default
FUNCTION_MEMORY_MB: Final = 128  # Lambda's default
GROUP: Final = "PIECEWORK_VERIFY_LOG_GROUP"  # the variable of the function that reads these lines


@dataclass(frozen=True, slots=True)
class Function:
    """A Lambda function as declared."""

    name: str
    handler: str
    folder: Path
    timeout_seconds: float
    memory_mb: int
    environment: Mapping[str, str]
    reserved: int | None = None
    layers: tuple[str, ...] = ()  # logical names; the ARN of foreign layers
    elsewhere: frozenset[str] = frozenset()  # variables that the template gives only to other functions
    read_group: str | None = None  # its log group, if another function reads it


@dataclass(frozen=True, slots=True)
class Route:
    """A method on a resource, with the function behind it; `authorizer` names a function too."""

    resource: str
    method: str
    function: str
    authorizer: str | None
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class QueueSource:
    """A function that takes a queue's messages."""

    function: str
    queue_arn: str
    batch_size: int
    reports_failures: bool
    may_loop: bool = False
    at_once: int | None = None  # batches; None if the mapping does not state a number


@dataclass(frozen=True, slots=True)
class ScheduleSource:
    """A function that is invoked at an interval."""

    function: str
    name: str
    seconds: float


Source = QueueSource | ScheduleSource


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """The edge's own answer to one kind of failure."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    template: str | None = None


@dataclass(frozen=True, slots=True)
class Api:
    """One REST API of the template."""

    name: str
    stage: str
    routes: tuple[Route, ...]
    functions: Mapping[str, Function]
    binary_types: tuple[str, ...]
    responses: Mapping[str, GatewayResponse]
    sources: tuple[Source, ...] = ()  # other invokers of functions of the same door


def api_of(template: Template, name: str) -> Api:
    """The API with this logical name, and the functions that it calls.

    Raises:
        LookupError: the template does not deploy this API.
    """
    shared = template.globals.get("Api", {})
    found = template.of_type("AWS::Serverless::Api").get(name)
    if found is None:
        raise LookupError(f"the template does not deploy an API named {name}")
    properties = {**shared, **found}
    declared = template.of_type("AWS::Serverless::Function")
    routes = _routes(name, properties, declared)
    sources = tuple(_sources(template, name, declared))
    called = {route.function for route in routes} | {route.authorizer for route in routes if route.authorizer}
    called |= {source.function for source in sources}
    read_groups = {str(_variables(body).get(GROUP)) for body in declared.values()} - {"", "None"}
    return Api(
        name=name,
        stage=str(properties["StageName"]),
        routes=routes,
        functions={key: _function(template, key, declared[key], read_groups) for key in sorted(called)},
        binary_types=tuple(kind.replace("~1", "/") for kind in properties.get("BinaryMediaTypes", ())),
        responses={kind: _response(body) for kind, body in properties.get("GatewayResponses", {}).items()},
        sources=sources,
    )


def _routes(api: str, properties: Mapping[str, Any], functions: Mapping[str, Any]) -> tuple[Route, ...]:
    authorizers = {key: body["FunctionArn"].rsplit(":", 1)[-1] for key, body in _authorizers(properties).items()}
    default = properties.get("Auth", {}).get("DefaultAuthorizer")
    return tuple(
        _route(event["Properties"], function, authorizers, default)
        for function, body in functions.items()
        for event in body.get("Events", {}).values()
        if event["Type"] == "Api" and event["Properties"].get("RestApiId") == api
    )


def _sources(template: Template, api: str, functions: Mapping[str, Any]) -> Iterator[Source]:
    """Queues and schedules of the functions that are deployed under the same condition as the API."""
    door = template.condition_of(api)
    for function, body in functions.items():
        for name, event in body.get("Events", {}).items() if template.condition_of(function) == door else ():
            properties = event["Properties"]
            if event["Type"] == "SQS":
                reports = "ReportBatchItemFailures" in properties.get("FunctionResponseTypes", ())
                may_loop = body.get("RecursiveLoop") == "Allow"
                at_once = properties.get("ScalingConfig", {}).get("MaximumConcurrency")
                yield QueueSource(
                    function,
                    properties["Queue"],
                    int(properties.get("BatchSize", 10)),
                    reports,
                    may_loop,
                    int(at_once) if at_once else None,
                )
            elif event["Type"] == "Schedule":
                yield ScheduleSource(function, name, _seconds(properties["Schedule"]))


def _seconds(schedule: str) -> int:
    """The interval of `rate(N minutes)`."""
    count, unit = schedule.removeprefix("rate(").removesuffix(")").split()
    return int(count) * {"minute": 60, "hour": 3_600, "day": 86_400}[unit.removesuffix("s")]


def _authorizers(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = properties.get("Auth", {}).get("Authorizers", {})
    return found


def _route(event: Mapping[str, Any], function: str, authorizers: Mapping[str, str], default: str | None) -> Route:
    chosen = event.get("Auth", {}).get("Authorizer", default)
    return Route(
        resource=event["Path"],
        method=event["Method"].upper(),
        function=function,
        authorizer=None if chosen in (None, "NONE") else authorizers[chosen],
        timeout_ms=int(event.get("TimeoutInMillis", INTEGRATION_TIMEOUT_MS)),
    )


def _function(template: Template, name: str, body: Mapping[str, Any], read_groups: Set[str]) -> Function:
    shared = template.globals.get("Function", {})
    variables = {**_variables(shared), **_variables(body)}
    merged = {**shared, **body}
    group = str(merged.get("LoggingConfig", {}).get("LogGroup", ""))
    return Function(
        name=name,
        handler=merged["Handler"],
        folder=template.folder / merged["CodeUri"],
        timeout_seconds=math.ceil(float(merged.get("Timeout", FUNCTION_TIMEOUT_SECONDS))),
        memory_mb=int(merged.get("MemorySize", FUNCTION_MEMORY_MB)),
        environment={key: _text(value) for key, value in variables.items()},
        reserved=int(merged.get("ReservedConcurrentExecutions", 0)) or None,
        layers=tuple(map(str, merged.get("Layers", ()))),
        elsewhere=template.variables - variables.keys(),
        read_group=group if group in read_groups else None,
    )


def _variables(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    given: Mapping[str, Any] = properties.get("Environment", {}).get("Variables", {})
    return given


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _response(body: Mapping[str, Any]) -> GatewayResponse:
    headers = body.get("ResponseParameters", {}).get("Headers", {})
    status = body.get("StatusCode")
    return GatewayResponse(
        status=int(status) if status is not None else None,
        headers={name: value.removeprefix("'").removesuffix("'") for name, value in headers.items()},
        template=next(iter(body.get("ResponseTemplates", {}).values()), None),
    )


class Matcher:
    """Finds routes by path: the most specific resource wins, then the method, then ANY."""

    def __init__(self, routes: Iterable[Route]) -> None:
        methods: dict[str, dict[str, Route]] = {}
        for route in routes:
            methods.setdefault(route.resource, {})[route.method] = route
        self._resources = [(name.split("/")[1:], methods[name]) for name in sorted(methods, key=_specificity)]

    def match(self, method: str, path: str) -> tuple[Route | None, dict[str, str]]:
        """The route of a path, and the path's parameters.

        None if the path does not match a resource, or the resource does not have the method.
        """
        parts = path.split("/")[1:]
        for pattern, methods in self._resources:
            parameters = _fit(pattern, parts)
            if parameters is not None:
                return methods.get(method) or methods.get("ANY"), parameters
        return None, {}


def _specificity(resource: str) -> list[int]:
    return [2 if part.endswith("+}") else 1 if part.startswith("{") else 0 for part in resource.split("/")]


def _fit(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    parameters: dict[str, str] = {}
    for position, wanted in enumerate(pattern):
        if wanted.endswith("+}"):
            rest = "/".join(parts[position:])
            return {**parameters, wanted[1:-2]: rest} if rest else None
        if position >= len(parts):
            return None
        if wanted.startswith("{"):
            if not parts[position]:
                return None
            parameters[wanted[1:-1]] = parts[position]
        elif wanted != parts[position]:
            return None
    return parameters if len(pattern) == len(parts) else None
