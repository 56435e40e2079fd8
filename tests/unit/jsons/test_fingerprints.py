"""Fingerprints: the same request in any order or spacing, with or without members nobody asked for, is one request."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.jsons import loads
from piecework.runtime.execute.flow import fingerprint_of

EXAMPLE = json.loads((Path(__file__).parents[3] / "events" / "runtime" / "execute" / "kernel.json").read_text())
BODY = json.loads(EXAMPLE["body"])


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in sorted(value, reverse=True)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


def test_order_and_spacing_make_no_difference():
    assert fingerprint_of(loads(json.dumps(reordered(BODY), indent=2))) == fingerprint_of(BODY)


def test_unknown_members_make_no_difference():
    contract = {**BODY["task_contract"], "new": 1, "budget": {**BODY["task_contract"]["budget"], "new": 2}}

    assert fingerprint_of({**BODY, "extra": {"x": 1}, "task_contract": contract}) == fingerprint_of(BODY)


def test_an_absent_seed_is_a_null_seed():
    assert fingerprint_of({key: value for key, value in BODY.items() if key != "seed_bundle"}) == fingerprint_of(BODY)


@pytest.mark.parametrize("member", ["inputs", "profile", "stage", "task_type", "task_contract"])
def test_every_known_member_counts(member):
    changed = {"prompt": "other"} if member in ("inputs", "task_contract") else "other"

    assert fingerprint_of({**BODY, member: changed}) != fingerprint_of(BODY)


@given(st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=5))
def test_free_form_inputs_are_taken_whole(value):
    same = fingerprint_of({**BODY, "inputs": {"v": value}}) == fingerprint_of({**BODY, "inputs": {"v": [value]}})

    assert not same
