"""A request to verify is read the same with the models and without them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piecework.errors import Unprocessable
from piecework.runtime.messages import parse
from piecework.runtime.verify import messages as plain
from piecework.runtime.verify import models
from tests.support.runtime.verification import a_verify_body

LAYER = Path(__file__).parents[3] / "layers" / "piecework"
odd = st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3) | st.lists(st.integers(), max_size=1)
odd = odd | st.dictionaries(st.text(max_size=2), st.integers(), max_size=1)
BODY = a_verify_body({"answer": 1})
MEMBERS = [(part, name) for part in ("candidate", "policy") for name in BODY[part]]
MEMBERS += [(name, None) for name in BODY]


def changed(place, value, is_absent):
    """The right body with one member replaced or left out."""
    part, name = place
    inner = dict(BODY[part]) if name else {}
    target, key = (inner, name) if name else (body := dict(BODY), part)
    target[key] = value
    if is_absent:
        del target[key]
    return body if name is None else {**BODY, part: inner}


@settings(max_examples=300)
@given(st.sampled_from(MEMBERS), odd | st.lists(odd, max_size=2), st.booleans())
def test_what_is_read_at_once_the_models_read_alike(place, value, is_absent):
    body = changed(place, value, is_absent)
    try:
        expected = parse(models.VerifyRequest, body).model_dump()
    except Unprocessable as refusal:
        with pytest.raises(Unprocessable, match=f"^{re.escape(refusal.message)}$"):
            plain.read_request(body)
        return

    read = plain.read_request(body)

    for part in ("candidate", "policy"):
        assert {name: getattr(getattr(read, part), name) for name in expected[part]} == expected[part]
    assert read.output_schema == expected["output_schema"]
    assert isinstance(read, plain.Request)


def test_a_right_request_is_read_without_pydantic():
    code = (
        "import sys; from piecework.runtime.verify.messages import read_request;"
        f" read_request({BODY!r}); print('pydantic' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=LAYER, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
