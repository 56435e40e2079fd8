"""What commands read of a deployed stack: its outputs, and the settings of one of its functions.

Both need the caller's own AWS credentials. For a stack that cannot be read, one sentence says what to do.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    ProfileNotFound,
    TokenRetrievalError,
)

from piecework.aws.through_botocore import error_code
from piecework_cli.output import CommandError

_MISSING: Final = "the stack {stack}, or this door in it, does not exist; check the name, the account and AWS_REGION"
_DENIED: Final = (
    "your AWS credentials may not read the stack {stack}; the command needs cloudformation:DescribeStacks, "
    "cloudformation:DescribeStackResource and lambda:GetFunctionConfiguration"
)
_NOT_TAKEN: Final = "AWS does not accept your credentials; sign in again"
OF_CODE: Final[Mapping[str, str]] = {  # AWS's error code, and our message
    "ValidationError": _MISSING,  # CloudFormation's code for a stack that does not exist
    "ResourceNotFoundException": _MISSING,
    "AccessDenied": _DENIED,
    "AccessDeniedException": _DENIED,
    "ExpiredToken": _NOT_TAKEN,
    "ExpiredTokenException": _NOT_TAKEN,
    "InvalidClientTokenId": _NOT_TAKEN,
    "UnrecognizedClientException": _NOT_TAKEN,
}
OF_KIND: Final[Mapping[type[BotoCoreError], str]] = {  # errors that botocore raises before it calls AWS
    ProfileNotFound: "the profile that AWS_PROFILE names does not exist; `aws configure list-profiles` shows them",
    NoRegionError: "the Region is not set; set AWS_REGION to the stack's Region",
    NoCredentialsError: "AWS credentials were not found; sign in, or set AWS_PROFILE",
    TokenRetrievalError: "your session has expired; sign in again",
}


def output_of(stack: str, name: str) -> str:
    """One output of the stack; empty where the stack does not have it.

    Raises:
        CommandError: the stack cannot be read.
    """
    with _stack_errors(stack):
        found = _client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", [])
    return next((str(output["OutputValue"]) for output in found if output["OutputKey"] == name), "")


def variables_of(stack: str, function: str) -> dict[str, str]:
    """The environment of the stack's function with this logical id.

    Raises:
        CommandError: the stack or the function cannot be read.
    """
    with _stack_errors(stack):
        resource = _client("cloudformation").describe_stack_resource(StackName=stack, LogicalResourceId=function)
        name = resource["StackResourceDetail"]["PhysicalResourceId"]
        found = _client("lambda").get_function_configuration(FunctionName=name)
    return dict(found["Environment"]["Variables"])


def secret_of(arn: str) -> str:
    """A secret's string.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        return str(_client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]).strip()
    except (ClientError, BotoCoreError) as error:
        raise CommandError(f"the secret {arn} cannot be read; it needs secretsmanager:GetSecretValue") from error


def _client(service: str) -> Any:
    import boto3

    if region := os.environ.get(
        "AWS_REGION"
    ):  # our messages name AWS_REGION, as AWS's own tools do; botocore reads the other variable
        os.environ["AWS_DEFAULT_REGION"] = region
    made: Any = boto3.client
    return made(service)


@contextmanager
def _stack_errors(stack: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise CommandError(_sentence_on(stack, error)) from error


def _sentence_on(stack: str, error: ClientError | BotoCoreError) -> str:
    if isinstance(error, ClientError):
        code = error_code(error)
        return OF_CODE.get(code, f"AWS does not answer for the stack {{stack}} ({code}); try again").format(stack=stack)
    return OF_KIND.get(type(error), f"AWS cannot be reached ({type(error).__name__}); check the network and AWS_REGION")
