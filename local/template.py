"""template.yaml as the deployment would see it: loops written out, parameters filled in, intrinsics resolved."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from local.loops import TemplateError, written_out

REGION: Final = "us-east-1"
ACCOUNT: Final = "000000000000"
PSEUDO: Final[Mapping[str, Any]] = {
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "piecework",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/piecework/local",
    "AWS::NotificationARNs": [],
    "AWS::NoValue": None,
}
FUNCTION: Final = "AWS::Serverless::Function"
QUEUE: Final = "AWS::SQS::Queue"
LOCAL_BUCKET: Final = "piecework-local"
LOCAL_QUEUES: Final = f"http://127.0.0.1/{ACCOUNT}"  # a client with an endpoint of its own reads the name only
ARNS: Final[Mapping[str, str]] = {
    FUNCTION: "arn:aws:lambda:{region}:{account}:function:{name}",
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:{region}:{account}:table/{name}",
    "AWS::S3::Bucket": "arn:aws:s3:::{name}",
    QUEUE: "arn:aws:sqs:{region}:{account}:{name}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{name}:*",
}
_VARIABLE: Final = re.compile(r"\$\{(!?)([^}]+)\}")


class _Loader(yaml.CSafeLoader):
    """YAML with CloudFormation's short tags."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any = None
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _intrinsic)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(path: Path) -> Mapping[str, Any]:
    """A template file with its loops written out and long forms of its intrinsic functions."""
    return written_out(parsed(path.read_text(encoding="utf-8")))


def parsed(text: str) -> dict[str, Any]:
    """A template as it is written, loops and all."""
    loader = _Loader(text)
    try:
        raw: dict[str, Any] = loader.get_single_data()
        return raw
    finally:
        loader.dispose()


class Template:
    """A template with its parameters and conditions decided; properties are resolved when they are asked for."""

    def __init__(self, raw: Mapping[str, Any], folder: Path, overrides: Mapping[str, str] | None = None) -> None:
        self._raw = raw
        self.folder = folder  # what CodeUri is relative to
        self.parameters = _parameters(raw.get("Parameters") or {}, overrides or {})
        self._conditions: dict[str, bool] = {}
        self._resolved: dict[str, dict[str, Mapping[str, Any]]] = {}  # by type
        declared: Mapping[str, Any] = raw.get("Resources") or {}
        self._kept = {name: body for name, body in declared.items() if self._wanted(body)}
        self.globals: Mapping[str, Any] = self.resolve(raw.get("Globals") or {})

    @classmethod
    def load(cls, path: Path, overrides: Mapping[str, str] | None = None) -> "Template":
        """Read a template file; `overrides` replace parameter defaults."""
        return cls(read(path), path.parent, overrides)

    def of_type(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """Resolved properties of every deployed resource of one type, by logical name."""
        if kind not in self._resolved:
            kept = ((name, body.get("Properties") or {}) for name, body in self._kept.items() if body["Type"] == kind)
            self._resolved[kind] = {name: self.resolve(properties) for name, properties in kept}
        return dict(self._resolved[kind])

    @property
    def variables(self) -> frozenset[str]:
        """Every name of a variable that the template gives to a function, whether that one is deployed or not."""
        functions = (body for body in self._raw["Resources"].values() if body["Type"] == FUNCTION)
        given = (body.get("Properties", {}).get("Environment", {}).get("Variables", {}) for body in functions)
        return frozenset(name for variables in given for name in variables)

    def physical_name(self, logical: str) -> str:
        """The name a resource has here: its own if the template gives one, else the local one of its type."""
        body = self._kept[logical]
        given = next((value for key, value in (body.get("Properties") or {}).items() if key in _NAME_PROPERTIES), None)
        named = self.resolve(given) if given is not None else None
        return named if isinstance(named, str) else _local_name(body["Type"], logical)

    def condition_of(self, logical: str) -> str | None:
        """The name of the condition under which a resource is deployed."""
        name: str | None = self._kept[logical].get("Condition")
        return name

    def resolve(self, node: Any) -> Any:
        """The node with every intrinsic function replaced by its value; members without a value are left out."""
        if isinstance(node, Mapping):
            if len(node) == 1:
                [(key, argument)] = node.items()
                intrinsic = _INTRINSICS.get(key)
                if intrinsic is not None and (key != "Condition" or isinstance(argument, str)):
                    return intrinsic(self, argument)
            if unknown := [key for key in node if str(key).startswith("Fn::")]:
                raise TemplateError(f"{', '.join(unknown)} cannot be resolved here")
            resolved = {key: self.resolve(value) for key, value in node.items()}
            return {key: value for key, value in resolved.items() if value is not None or node[key] is None}
        if isinstance(node, list):
            return [value for value in map(self.resolve, node) if value is not None]
        return node

    def condition(self, name: str) -> bool:
        """Whether a named condition holds."""
        if name not in self._conditions:
            self._conditions[name] = bool(self.resolve(self._raw["Conditions"][name]))
        return self._conditions[name]

    def _wanted(self, body: Mapping[str, Any]) -> bool:
        return "Condition" not in body or self.condition(body["Condition"])

    def _ref(self, name: str) -> Any:
        if name in PSEUDO:
            return PSEUDO[name]
        if name in self.parameters:
            return self.parameters[name]
        logical = name.partition(".")[0]  # SAM's own references, such as ExecuteFunction.Alias
        if logical in self._kept:
            prefix = f"{LOCAL_QUEUES}/" if self._kept[logical]["Type"] == QUEUE else ""
            return prefix + self.physical_name(logical)
        if any(
            name.startswith(declared) for declared in self._kept
        ):  # resources SAM makes, such as ExecuteFunctionRole
            return name
        raise TemplateError(f"{name} is neither a parameter nor a resource that is deployed")

    def _get_att(self, argument: Any) -> str:
        logical, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
        name = self.physical_name(logical) if logical in self._kept else self._ref(logical)
        if attribute == "QueueName":
            return name
        if attribute == "Arn":
            kind = self._kept.get(logical, {}).get("Type", "")
            pattern = ARNS.get(kind, "arn:aws:local:{region}:{account}:{name}")
            return pattern.format(region=REGION, account=ACCOUNT, name=name)
        return f"{name}.{attribute}"

    def _sub(self, argument: Any) -> str:
        text, own = argument if isinstance(argument, list) else (argument, {})

        def value_of(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return f"${{{name}}}"
            if name in own:
                return str(self.resolve(own[name]))
            plain = name in PSEUDO or name in self.parameters or "." not in name
            return str(self._ref(name) if plain else self._get_att(name))

        return _VARIABLE.sub(value_of, text)

    def _if(self, argument: list[Any]) -> Any:
        name, then, otherwise = argument
        return self.resolve(then if self.condition(name) else otherwise)

    def _find_in_map(self, argument: list[Any]) -> Any:
        table, first, second = (self.resolve(part) for part in argument)
        return self._raw["Mappings"][table][str(first)][str(second)]

    def _join(self, argument: list[Any]) -> str:
        separator, parts = argument
        return str(separator).join(str(part) for part in self.resolve(parts))

    def _select(self, argument: list[Any]) -> Any:
        return self.resolve(argument[1])[int(self.resolve(argument[0]))]

    def _split(self, argument: list[Any]) -> list[str]:
        return str(self.resolve(argument[1])).split(str(argument[0]))

    def _equals(self, argument: list[Any]) -> bool:
        left, right = (self.resolve(part) for part in argument)
        return str(left) == str(right)


def _local_name(kind: str, logical: str) -> str:
    """The local name of a table, bucket or queue without one in the template: piecework-results for ResultsTable."""
    if kind == "AWS::S3::Bucket":
        return LOCAL_BUCKET
    if kind not in ("AWS::DynamoDB::Table", QUEUE):
        return logical
    words = re.findall("[A-Z][a-z]*", logical.removesuffix("Table").removesuffix("Queue"))
    return "-".join(("piecework", *words)).lower()


_NAME_PROPERTIES: Final = ("TableName", "BucketName", "QueueName", "FunctionName")
_INTRINSICS: Final[Mapping[str, Callable[[Template, Any], Any]]] = {
    "Ref": Template._ref,
    "Condition": Template.condition,
    "Fn::GetAtt": Template._get_att,
    "Fn::Sub": Template._sub,
    "Fn::If": Template._if,
    "Fn::FindInMap": Template._find_in_map,
    "Fn::Join": Template._join,
    "Fn::Select": Template._select,
    "Fn::Split": Template._split,
    "Fn::Equals": Template._equals,
    "Fn::And": lambda template, parts: all(template.resolve(part) for part in parts),
    "Fn::Or": lambda template, parts: any(template.resolve(part) for part in parts),
    "Fn::Not": lambda template, parts: not template.resolve(parts[0]),
}


def _parameters(declared: Mapping[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
    unknown = sorted(set(overrides) - set(declared))
    if unknown:
        raise TemplateError(f"the template has no parameter {', '.join(unknown)}")
    return {name: _parameter(body, overrides.get(name, body.get("Default", ""))) for name, body in declared.items()}


def _parameter(body: Mapping[str, Any], value: Any) -> Any:
    text = "true" if value is True else "false" if value is False else str(value)
    if body.get("Type") in ("CommaDelimitedList", "List<String>"):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text
