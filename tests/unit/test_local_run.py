"""`make run` takes the reference kernel's own names for its settings."""

from local.run import with_own_names


def test_the_reference_kernels_names_are_read_as_ours():
    env = with_own_names({"REBUNO_BEARER_TOKEN": "s3cret", "REBUNO_POLICY": "p.yaml", "HOME": "/h"})

    assert env == {"PIECEWORK_KERNEL_TOKENS": "rebuno=s3cret", "PIECEWORK_POLICY": "p.yaml", "HOME": "/h"}


def test_our_own_names_go_first():
    env = with_own_names({"REBUNO_POLICY": "theirs.yaml", "PIECEWORK_POLICY": "ours.yaml"})

    assert env == {"PIECEWORK_POLICY": "ours.yaml"}


def test_an_empty_token_opens_nothing_by_accident():
    assert with_own_names({"REBUNO_BEARER_TOKEN": ""}) == {}


def test_the_banner_says_who_serves_what_names_no_executor():
    from local import run

    env = {**run.DEPLOYED, "FACILITATOR_URL": "http://127.0.0.1:1"}

    told = run._what_next(8787, {"RuntimeApi": 8787, "WorkerApi": 8788}, "http://127.0.0.1:8792", env)

    assert "name no executor go to echo here" in told
