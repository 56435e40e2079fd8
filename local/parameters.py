"""Values of the template's parameters, checked against the template before a start or a deployment."""

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any


class Refused(Exception):
    """A value is wrong, or the deployment would fail or lose access to data."""


def check_values(raw: Mapping[str, Any], given: Mapping[str, str]) -> None:
    """Check each value against its parameter in the template.

    Raises:
        Refused: the parameter does not exist, or does not accept the value.
    """
    for name, value in given.items():
        body = raw["Parameters"].get(name)
        if body is None:
            near = difflib.get_close_matches(name, raw["Parameters"], 1)
            raise Refused(f"the parameter {name} does not exist" + (f"; did you mean {near[0]}?" if near else ""))
        allowed = [str(each) for each in body.get("AllowedValues", ())]
        if allowed and value not in allowed:
            raise Refused(f"{name} must be one of {', '.join(allowed)}")
        if not re.fullmatch(body.get("AllowedPattern", ".*"), value):
            wanted = body.get("ConstraintDescription", f"must match {body['AllowedPattern']}")
            raise Refused(f"{name} {wanted}")
        if len(value) > body.get("MaxLength", math.inf):
            raise Refused(f"{name} must have {body['MaxLength']} characters at most")
        if body["Type"] == "Number":
            _check_number(name, value, body)


def _check_number(name: str, value: str, body: Mapping[str, Any]) -> None:
    try:
        number = float(value)
    except ValueError:
        raise Refused(f"{name} must be a number") from None
    if not number >= body.get("MinValue", -math.inf):
        raise Refused(f"{name} must be {body['MinValue']} at least")
    if not number <= body.get("MaxValue", math.inf):
        raise Refused(f"{name} must be {body['MaxValue']} at most")
