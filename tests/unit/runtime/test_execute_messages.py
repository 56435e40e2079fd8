"""A request is read the same with the models and without them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piecework.errors import Unprocessable
from piecework.runtime.execute import messages as plain
from piecework.runtime.execute import models
from piecework.runtime.messages import parse

LAYER = Path(__file__).parents[3] / "layers" / "piecework"
odd = st.none() | st.booleans() | st.integers(-2, 2**64) | st.floats(allow_nan=False) | st.text(max_size=3)
odd = odd | st.lists(st.text(max_size=2) | st.integers(), max_size=2) | st.dictionaries(st.text(max_size=2), odd)
right = {name: st.text(max_size=3) for name in plain.TEXTS}
bodies = st.fixed_dictionaries(
    {},
    optional={
        **{name: text | odd for name, text in right.items()},
        "inputs": odd,
        "task_contract": odd,
        "seed_bundle": odd,
    },
)
policies = st.fixed_dictionaries(
    {}, optional={"max_inline_evidence_bytes": odd, "inline_mime_allowlist": odd, "x": odd}
)
contracts = st.fixed_dictionaries(
    {},
    optional={
        "output_schema": odd,
        "evidence_policy": policies | odd,
        "budget": st.fixed_dictionaries({}, optional={"verify_cost_units": odd}) | odd,
        "x": odd,
    },
)


@settings(max_examples=400)
@given(bodies)
def test_what_is_read_at_once_the_models_read_alike(body):
    try:
        expected = parse(models.ExecuteRequest, body)
    except Unprocessable as refusal:
        with pytest.raises(Unprocessable, match=f"^{re.escape(refusal.message)}$"):
            plain.read_request(body)
        return

    read = plain.read_request(body)

    assert {name: getattr(read, name) for name in models.ExecuteRequest.model_fields} == expected.model_dump()
    assert plain._is_request(body)


@settings(max_examples=600)
@given(contracts)
def test_contracts_are_read_alike(contract):
    try:
        expected = parse(models.Contract, contract, under="task_contract")
    except Unprocessable as refusal:
        with pytest.raises(Unprocessable, match=f"^{re.escape(refusal.message)}$"):
            plain.read_contract(contract)
        return

    read = plain.read_contract(contract)

    assert read.output_schema == expected.output_schema
    assert read.evidence_policy.max_inline_evidence_bytes == expected.evidence_policy.max_inline_evidence_bytes
    assert list(read.evidence_policy.inline_mime_allowlist) == expected.evidence_policy.inline_mime_allowlist
    assert read.verify_cost_units == expected.budget.verify_cost_units
    assert plain._is_contract(contract)


def test_a_right_request_is_read_without_pydantic():
    body = {**dict.fromkeys(plain.TEXTS, "x"), "inputs": None, "task_contract": {"output_schema": {}}}
    script = (
        "import sys; from piecework.runtime.execute.messages import read_request, read_contract;"
        f" read_contract(read_request({body!r}).task_contract); print('pydantic' in sys.modules)"
    )

    shown = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(LAYER)}, capture_output=True, text=True, check=True
    )

    assert shown.stdout.strip() == "False"
