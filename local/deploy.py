"""Deploy the stack: `make deploy STACK=piecework PARAMETERS="RuntimeTokensSecretArn=arn:…"`.

Wrong values are refused before AWS is called: names that the template does not have, values that it does not accept,
and values that its rules forbid. A changed name of a table or of the bucket is refused too, because CloudFormation
would make an empty one and leave the old one behind. After the deployment a stack policy refuses that to others.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import boto3
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from local.gateway.lambdas.variables import ROOT
from local.parameters import Refused, check_values
from local.template import Template, read
from piecework.aws.through_botocore import error_code

SAM: Final = ROOT / ".venv-sam" / "bin" / "sam"
ABSENT: Final = "ValidationError"  # CloudFormation's code for a stack or a resource that does not exist
NAMES: Final[Mapping[str, str]] = {  # a parameter, and the resource that it names for good
    "ResultsTableName": "ResultsTable",
    "ContractsTableName": "ContractsTable",
    "WorkTableName": "WorkTable",
    "DueTableName": "DueTable",
    "KernelTableName": "KernelTable",
    "BucketName": "Bucket",
}
SEE: Final = "docs/teardown.md says how to move"
PLANNED: Final = "REVIEW_IN_PROGRESS"  # a first change set was made but not run
NOT_MADE: Final = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"})  # such a stack cannot be updated
STACK_POLICY: Final[Mapping[str, Any]] = {
    "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": "Update:*", "Resource": "*"},
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "Update:Replace",
            "Resource": [f"LogicalResourceId/{logical}" for logical in NAMES.values()],
        },
    ]
}


def main() -> int:
    """Check, deploy, protect; returns the exit status."""
    arguments = _arguments()
    if region := os.environ.get("AWS_REGION"):  # AWS's own tools read it; SAM and boto3 read only the other name
        os.environ["AWS_DEFAULT_REGION"] = region
    try:
        given = pairs(arguments.parameters)
        raw = read(ROOT / "template.yaml")
        check_values(raw, given)
        client = boto3.client("cloudformation")
        standing = parameters_of(client, arguments.stack)
        check_rules(raw, {**(standing or {}), **given})
        check_names(client, arguments.stack, given, standing or {})
        status = subprocess.run(command(arguments, given, is_new=standing is None), cwd=ROOT, check=False).returncode
        return status or protect(client, arguments.stack)
    except Refused as error:
        print(f"not deployed: {error}", file=sys.stderr)
    except NoRegionError:
        print("not deployed: the Region is not set; set AWS_REGION to the stack's Region", file=sys.stderr)
    except NoCredentialsError:
        print("not deployed: AWS credentials were not found; sign in, or set AWS_PROFILE", file=sys.stderr)
    except (ClientError, BotoCoreError) as error:
        print(f"not deployed: AWS cannot be called: {error}", file=sys.stderr)
    return 1


def pairs(words: Sequence[str]) -> dict[str, str]:
    """`Name=Value` words as parameters.

    Raises:
        Refused: a word does not have this form.
    """
    odd = [word for word in words if not re.match("[A-Za-z0-9]+=", word)]
    if odd:
        raise Refused(f"{odd[0]!r} must be Name=Value")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def check_rules(raw: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
    """Check all values together against the template's rules.

    Raises:
        Refused: a rule forbids them; the message is the rule's own.
    """
    known = {name: value for name, value in parameters.items() if name in raw["Parameters"]}
    template = Template(raw, ROOT, known)
    for assertion in (each for rule in raw["Rules"].values() for each in rule["Assertions"]):
        if not template.resolve(assertion["Assert"]):
            raise Refused(assertion["AssertDescription"])


def parameters_of(client: Any, stack: str) -> dict[str, str] | None:
    """The parameters of an existing stack, or None if the deployment will create it.

    Raises:
        Refused: the stack is left from a failed creation, so it cannot be updated.
    """
    try:
        [found] = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if error_code(error) == ABSENT:
            return None
        raise
    if (status := found["StackStatus"]) == PLANNED:
        return None
    if status in NOT_MADE:
        raise Refused(
            f"{stack} is left from a creation that failed ({status}). Read its events for the reason "
            f"(aws cloudformation describe-stack-events --stack-name {stack}), delete it "
            f"(aws cloudformation delete-stack --stack-name {stack}), then deploy again"
        )
    return {each["ParameterKey"]: each["ParameterValue"] for each in found.get("Parameters", ())}


def check_names(client: Any, stack: str, given: Mapping[str, str], standing: Mapping[str, str]) -> None:
    """Deployed tables and the bucket keep their names; those that are not deployed yet may get one.

    Raises:
        Refused: a parameter would rename a deployed one.
    """
    for parameter in (name for name in NAMES if given.get(name, "") != standing.get(name, "") and name in given):
        name = _physical_name(client, stack, NAMES[parameter])
        if name is None or (name == given[parameter] and _is_imported(client, stack, NAMES[parameter], name)):
            continue
        raise Refused(
            f"{parameter} cannot change: {NAMES[parameter]} is {name}, and a new one would start empty. {SEE}"
        )


def _physical_name(client: Any, stack: str, logical: str) -> str | None:
    """The name of a resource of the stack, or None if the stack does not have it (any more)."""
    try:
        found = client.describe_stack_resource(StackName=stack, LogicalResourceId=logical)["StackResourceDetail"]
    except ClientError as error:
        if error_code(error) != ABSENT:
            raise
        return None
    return None if found["ResourceStatus"].startswith("DELETE") else str(found["PhysicalResourceId"])


def _is_imported(client: Any, stack: str, logical: str, name: str) -> bool:
    """Whether the deployed template itself gives the resource this name, as the template of an import does."""
    body = client.get_template(StackName=stack, TemplateStage="Processed")["TemplateBody"]
    resources = body.get("Resources", {}) if isinstance(body, Mapping) else {}
    return name in resources.get(logical, {}).get("Properties", {}).values()


def protect(client: Any, stack: str) -> int:
    """Set the stack policy, unless the operator has set another one; returns the exit status."""
    try:
        if not client.get_stack_policy(StackName=stack).get("StackPolicyBody"):
            client.set_stack_policy(StackName=stack, StackPolicyBody=json.dumps(STACK_POLICY))
    except ClientError as error:
        print(f"deployed, but the tables are not protected against replacement: {error}", file=sys.stderr)
        return 1
    return 0


def command(arguments: argparse.Namespace, given: Mapping[str, str], *, is_new: bool) -> list[str]:
    """The `sam deploy` command; for a first stack, which cannot lose data, it does not ask for a confirmation."""
    words = [str(SAM), "deploy", "--stack-name", arguments.stack, *(["--no-confirm-changeset"] if is_new else [])]
    # SAM reads an empty value, or one with a blank, only in quotation marks of its own.
    overrides = ['{}="{}"'.format(name, value.replace('"', '\\"')) for name, value in given.items()]
    return [*words, *arguments.sam, *(["--parameter-overrides", *overrides] if overrides else [])]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make deploy", description=__doc__.splitlines()[0])
    parser.add_argument("--stack", required=True, help="the name of the stack")
    parser.add_argument("--sam", type=str.split, default=[], help="further options of `sam deploy`")
    parser.add_argument("parameters", nargs="*", metavar="Name=Value")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
