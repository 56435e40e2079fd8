"""What each function's role allows, held against the calls that the function was seen to make."""

import copy
import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from local.gateway.lambdas.variables import ROOT
from local.template import ACCOUNT, REGION, Template, read

ROLE = "AWS::IAM::Role"
FUNCTION = "AWS::Serverless::Function"
TOKENS = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:tokens-AbCdEf"
EXECUTOR_SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:executors-AbCdEf"
EVERY_PERMISSION = {"RuntimeTokensSecretArn": TOKENS, "ExecutorSecretArn": EXECUTOR_SECRET}
FACILITATOR_KEY = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:facilitator-AbCdEf"
NODE_URL = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:node-AbCdEf"
FILES_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/files"
WORKER = {
    "DeployWorkerDoor": "true",
    "FacilitatorAuthSecretArn": FACILITATOR_KEY,
    "BaseRpcUrlSecretArn": NODE_URL,
    "DeliverablesKmsKeyArn": FILES_KEY,
}
KERNEL_TOKENS = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:kernel-tokens-AbCdEf"
KERNEL = {
    "DeployKernelDoor": "true",
    "KernelTokensSecretArn": KERNEL_TOKENS,
    "KernelPolicyBucket": "policies",
    "KernelPolicyKey": "kernel/policy.yaml",
    "ApprovalsTopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:approvals",
    "KernelWebhooksSecretArn": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:webhooks-AbCdEf",
}

CONSOLE = {
    "DeployConsole": "true",
    "OpsTokensSecretArn": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:ops-tokens-AbCdEf",
}

# Permissions that no call through the endpoint can show, and why they are needed.
EXCEPTIONS = {
    "logs:CreateLogStream": "Lambda itself opens the log stream of each environment, with the function's role",
    "logs:PutLogEvents": "Lambda itself writes what the function prints, with the function's role",
    "xray:PutTraceSegments": "Lambda itself sends the segments of a traced function, with the function's role",
    "xray:PutTelemetryRecords": "Lambda itself reports how many segments it sent or dropped",
    "kms:GenerateDataKey": "S3 itself asks KMS when a file is stored, with the function's rights",
    "kms:Decrypt": "S3 itself asks KMS when a file is read or linked, with the rights of who signed",
    "sqs:GetQueueAttributes": "Lambda itself looks at a queue that it polls, with the function's role",
}

_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, order=True)
class Call:
    """A permission that a function needed; `${VARIABLE}` stands for what the function knows under that name."""

    function: str
    action: str
    resource: str


@dataclass(frozen=True, order=True)
class Grant:
    """One action on one resource that a function's role allows."""

    function: str
    sid: str
    action: str
    resource: str

    def covers(self, call: Call) -> bool:
        """Whether the call is one of those allowed."""
        same = self.function == call.function and _matches(call.action.lower(), self.action.lower())
        return same and _matches(call.resource, self.resource)


@cache
def _raw() -> dict[str, Any]:
    return dict(read(ROOT / "template.yaml"))


def template_with(
    change: Callable[[dict[str, Any]], None] = lambda raw: None,
    *,
    worker: bool = False,
    kernel: bool = False,
    console: bool = False,
) -> Template:
    """template.yaml with every optional permission in it, after a change to its source; with these doors, too."""
    raw = copy.deepcopy(_raw())
    change(raw)
    doors = (WORKER if worker else {}) | (KERNEL if kernel else {}) | (CONSOLE if console else {})
    return Template(raw, ROOT, EVERY_PERMISSION | doors)


def grants_of(template: Template, kind: str = FUNCTION) -> set[Grant]:
    """Everything that the functions' roles allow."""
    roles = {template.resolve({"Fn::GetAtt": [name, "Arn"]}): body for name, body in template.of_type(ROLE).items()}
    return {
        Grant(function, statement["Sid"], action, resource)
        for function, body in template.of_type(kind).items()
        for statement in _statements(roles[body["Role"]])
        for action in _listed(statement["Action"])
        for resource in _listed(statement["Resource"])
    }


def statements(template: Template, name: str) -> list[Mapping[str, Any]]:
    """The statements of the role of the function that is called `{name}Function`."""
    return list(_statements(template.of_type(ROLE)[f"{name}Role"]))


def routes_of(template: Template, api: str) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
    """By path and method of an API: the function that serves it, and its event's properties."""
    return {
        (event["Properties"]["Path"], event["Properties"]["Method"]): (name, event["Properties"])
        for name, body in template.of_type(FUNCTION).items()
        for event in body.get("Events", {}).values()
        if event["Type"] == "Api" and event["Properties"]["RestApiId"] == api
    }


def statements_of(raw: dict[str, Any], function: str) -> list[dict[str, Any]]:
    """The statements of a function's role in the template's source; optional ones without their condition."""
    role = raw["Resources"][function.replace("Function", "Role")]
    document = role["Properties"]["Policies"][0]["PolicyDocument"]
    document["Statement"] = [entry["Fn::If"][1] if "Fn::If" in entry else entry for entry in document["Statement"]]
    return document["Statement"]


def _statements(role: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [entry for policy in role.get("Policies", ()) for entry in policy["PolicyDocument"]["Statement"]]
    understood = {"Sid", "Effect", "Action", "Resource"}
    assert all(set(entry) - {"Condition"} == understood and entry["Effect"] == "Allow" for entry in found), (
        "not read here"
    )
    assert all(_is_known(entry["Condition"]) for entry in found if "Condition" in entry), "not read here"
    return found


def _is_known(condition: Mapping[str, Any]) -> bool:
    """Whether a condition narrows the items of a table, the way to a key, or the list of a bucket.

    The template's tests hold what it says.
    """
    return {name for test in condition.values() for name in test} in (
        {"dynamodb:LeadingKeys"},
        {"kms:ViaService"},
        {"s3:prefix"},
    )


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _matches(text: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def as_deployed(call: Call, template: Template) -> Call:
    """The call with the names that the deployed function would have, as its variables in the template say."""
    known = template.of_type(FUNCTION)[call.function].get("Environment", {}).get("Variables", {})
    resource = _VARIABLE.sub(lambda found: _named_by(found[1], known), call.resource)
    return Call(call.function, call.action, resource)


def _named_by(variable: str, known: Mapping[str, Any]) -> str:
    value = str(known.get(variable, f"${{{variable}}}"))
    return value.rpartition("/")[2] if variable.endswith("_QUEUE_URL") else value


def refused(calls: Iterable[Call], template: Template) -> list[Call]:
    """The calls that the deployed functions' roles would refuse."""
    grants = grants_of(template)
    deployed = {as_deployed(call, template) for call in calls}
    return sorted(call for call in deployed if not any(grant.covers(call) for grant in grants))


def unused(calls: Iterable[Call], template: Template) -> list[Grant]:
    """The permissions that no call needed and no exception explains."""
    deployed = {as_deployed(call, template) for call in calls}
    traced = {name for name, body in template.of_type(FUNCTION).items() if "Tracing" in body}
    return sorted(
        grant
        for grant in grants_of(template)
        if not any(grant.covers(call) for call in deployed) and not _is_explained(grant, traced)
    )


def _is_explained(grant: Grant, traced: set[str]) -> bool:
    return grant.action in EXCEPTIONS and (not grant.action.startswith("xray:") or grant.function in traced)


def used(calls: Mapping[Call, int], template: Template) -> dict[str, dict[str, int]]:
    """How often each permission was needed, by function: the figures of a run's report."""
    counts: dict[str, Counter[str]] = {}
    grants = grants_of(template)
    for call, times in calls.items():
        deployed = as_deployed(call, template)
        granted = [grant for grant in grants if grant.covers(deployed)]
        label = f"{call.action} {granted[0].resource}" if granted else f"REFUSED {call.action} {deployed.resource}"
        counts.setdefault(call.function, Counter())[label] += times
    return {function: dict(sorted(found.items())) for function, found in sorted(counts.items())}
