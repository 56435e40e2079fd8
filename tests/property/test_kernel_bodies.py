"""Random bodies of the kernel door: what a shape reads is what pydantic's model of it reads, and nothing else."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from kernel.http.api import ROUTES
from kernel.http.models import explained, model_of
from kernel.http.shapes import Body

BODIES = sorted(Body.__subclasses__(), key=lambda body: body.__name__)
TEXTS = st.sampled_from(["", "a", "geo.lookup", "ü" * 128, "ü" * 129, "2026-11-28T18:26:01Z", "2026-13-28T18:26:01Z"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
NAMES = st.sampled_from(sorted({name for body in BODIES for name in body.members()} | {"other"}))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4))


def members_of(body: type[Body]) -> Any:
    return st.fixed_dictionaries({}, optional=dict.fromkeys((*body.members(), "other"), VALUES))


def plain(read: Any) -> Any:
    """What was read, as JSON."""
    if isinstance(read, Body):
        return {name: plain(getattr(read, name)) for name in read.given}
    if isinstance(read, BaseModel):
        return {name: plain(getattr(read, name)) for name in read.model_fields_set}
    return [plain(one) for one in read] if isinstance(read, list) else read


def without_nulls(read: Any) -> Any:
    if isinstance(read, dict):
        return {name: without_nulls(one) for name, one in read.items() if one is not None}
    return [without_nulls(one) for one in read] if isinstance(read, list) else read


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_shape_and_its_model_read_the_same(body, data):
    value = data.draw(members_of(body))
    try:
        expected = plain(model_of(body).model_validate(value))
    except ValidationError:
        with pytest.raises(ValueError):
            body.of(value)
        assert ": " in explained(body, value)
    else:
        assert without_nulls(plain(body.of(value))) == without_nulls(expected)


def test_every_body_that_a_route_takes_is_among_them():
    taken = {
        content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for route in ROUTES
        if (content := route.about.get("openapi_extra", {}).get("requestBody", {}).get("content"))
    }

    assert taken <= {body.__name__ for body in BODIES} and len(taken) == 12
