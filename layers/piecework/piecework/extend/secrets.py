"""Settings and secrets of executors: plain environment names, or one JSON secret on Lambda.

Locally an executor's key is an environment variable. On Lambda the secret at `PIECEWORK_EXECUTOR_SECRET_ARN` holds a
JSON object with the same names, so that keys are not in a function's configuration. A variable that is set wins.
"""

from collections.abc import Callable, Mapping
from typing import Final

from piecework.errors import BadRequest, SettingsError
from piecework.jsons import loads

SECRET_ARN: Final = "PIECEWORK_EXECUTOR_SECRET_ARN"  # noqa: S105  # the name of a variable


def executor_values(env: Mapping[str, str], read_secret: Callable[[str], str]) -> Mapping[str, str]:
    """The values that an executor may read by name: environment variables, else members of the JSON secret.

    Raises:
        SettingsError: the secret is not a JSON object of strings.
        Unavailable: the secret is out of reach.
    """
    arn = env.get(SECRET_ARN, "").strip()
    members = _members(read_secret(arn)) if arn else {}
    return members | {name: value for name, value in env.items() if value.strip()}


def secret(name: str, env: Mapping[str, str], read_secret: Callable[[str], str]) -> str:
    """One secret by name.

    Raises:
        SettingsError: it is not set; and as `executor_values`.
        Unavailable: the secret is out of reach.
    """
    value = executor_values(env, read_secret).get(name, "").strip()
    if not value:
        raise SettingsError(f"set {name}, as a variable or in the executors' secret")
    return value


def _members(text: str) -> dict[str, str]:
    try:
        members = loads(text)
    except BadRequest:
        raise SettingsError("the executors' secret is not JSON") from None
    if not isinstance(members, dict) or not all(isinstance(value, str) for value in members.values()):
        raise SettingsError("the executors' secret must be a JSON object whose members are strings")
    return members
