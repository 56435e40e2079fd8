"""`make run` takes the reference kernel's own names for its settings."""

import pytest

from local.aws import NotStarted
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

    assert "do not name an executor go to echo here" in told


def test_the_banners_commands_find_doors_that_were_moved_and_that_ask_for_a_token():
    from local import run

    doors = {"RuntimeApi": 9000, "WorkerApi": 9001, "KernelApi": 9002}
    usual = dict(zip(doors, (8787, 8788, 8789), strict=True))
    env = {**run.DEPLOYED, "FACILITATOR_URL": "http://127.0.0.1:1"}
    tokens = {**env, "PIECEWORK_KERNEL_TOKENS": "a=s3cret"}

    moved = run._what_next(9000, doors, "http://127.0.0.1:9005", tokens)
    unmoved = run._what_next(8787, usual, "http://127.0.0.1:8792", env)

    assert "  PIECEWORK_PORT_BASE=9000 make demo-hire " in moved
    assert "  PIECEWORK_PORT_BASE=9000 PIECEWORK_KERNEL_TOKEN=SECRET bin/piecework exec ls " in moved
    assert "s3cret" not in moved
    assert "  make demo-hire " in unmoved and "  bin/piecework exec ls " in unmoved


@pytest.mark.parametrize(("roles", "is_told"), [("", True), ("a=agent", False)])
def test_the_banner_says_when_approval_is_no_boundary(roles, is_told):
    from local import run

    env = {**run.DEPLOYED, "PIECEWORK_KERNEL_TOKENS": "a=1", "PIECEWORK_KERNEL_TOKEN_ROLES": roles}
    kernel = run._what_next(8787, {"KernelApi": 8789}, "http://127.0.0.1:8792", env)
    runtime = run._what_next(8787, {"RuntimeApi": 8787}, "http://127.0.0.1:8792", env)

    assert ("an agent may approve its own calls" in kernel) is is_told
    assert "approve" not in runtime


@pytest.mark.parametrize(
    ("tokens", "roles", "secrets"),
    [
        ("", "", ("", "")),
        ("a=1,b=2", "", ("1", "1")),
        ("a=1,b=2,c=3", "a=viewer,b=runner+client,c=agent", ("3", "2")),
        ("a=1", "a=agent", ("1", None)),
    ],
)
def test_the_demo_takes_tokens_that_have_its_roles(tokens, roles, secrets):
    from local.demo_kernel import Role, secret_of

    env = {"PIECEWORK_KERNEL_TOKENS": tokens, "PIECEWORK_KERNEL_TOKEN_ROLES": roles}

    assert (secret_of(Role.AGENT, env), secret_of(Role.RUNNER, env)) == secrets


def test_a_secret_that_two_names_share_is_told_by_its_door_and_the_names_alone():
    from local.preflight import shared_secrets

    env = {"PIECEWORK_OPS_TOKENS": "ann=hunter2,bob=hunter2,cid=x", "PIECEWORK_KERNEL_TOKENS": "a=1,a=2"}
    [told] = shared_secrets(env)

    assert told.startswith("PIECEWORK_OPS_TOKENS: ann, bob share a secret.") and "hunter2" not in told


@pytest.mark.parametrize("name", ["PIECEWORK_RUNTIME_TOKENS", "PIECEWORK_KERNEL_TOKENS", "PIECEWORK_OPS_TOKENS"])
@pytest.mark.parametrize("text", [",", " ", "kernel", "=s3cret"])
def test_tokens_that_cannot_be_read_are_a_mistake_that_is_told_before_anything_starts(name, text):
    from local.preflight import check_tokens

    with pytest.raises(NotStarted, match=f"{name}: .*name=secret") as told:
        check_tokens({name: text})

    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize("given", ["many", "0", "-1", "1.5", "4000", "\u0661"])
def test_a_number_of_environments_that_cannot_be_is_told_before_anything_starts(given):
    from local.preflight import check_environments

    with pytest.raises(NotStarted, match="PIECEWORK_LOCAL_ENVIRONMENTS must be a number from 1 to 1000"):
        check_environments({"PIECEWORK_LOCAL_ENVIRONMENTS": given})


@pytest.mark.parametrize("given", ["", "1", "200", "1000"])
def test_a_number_of_environments_that_can_be_is_taken(given):
    from local.preflight import check_environments

    check_environments({"PIECEWORK_LOCAL_ENVIRONMENTS": given})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("AllowTestnt", "true", "did you mean AllowTestnet?"),
        ("ExecuteTimeoutMs", "1234", "ExecuteTimeoutMs must be one of 3000, "),
        ("WorkerCorsOrigin", "shop.example", "WorkerCorsOrigin must match "),
    ],
)
def test_a_parameter_that_the_template_does_not_take_is_told_before_anything_starts(
    monkeypatch, capsys, name, value, sentence
):
    from local import run

    monkeypatch.setattr(run, "broken_executors", lambda env: [])
    monkeypatch.setattr(run.signal, "signal", lambda *_: None)
    monkeypatch.setattr(run, "_check_free", lambda port: pytest.fail("this one would have been started"))
    monkeypatch.setenv(f"PIECEWORK_PARAM_{name}", value)

    assert run.main() == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("not started: PIECEWORK_PARAM_") and sentence in line


@pytest.mark.parametrize("door", ["KERNEL", "OPS"])
@pytest.mark.parametrize(
    ("tokens", "roles", "why"),
    [
        ("a=s3cret", "a=king", "not one of"),
        ("", "a=viewer", "the door is open"),
        ("a=s3cret", "a=viewer,b=operator", "no token of the name b"),
    ],
)
def test_roles_that_would_not_hold_are_told_before_anything_starts(door, tokens, roles, why):
    from local.preflight import check_roles

    names = {f"PIECEWORK_{door}_TOKENS": tokens, f"PIECEWORK_{door}_TOKEN_ROLES": roles}

    with pytest.raises(NotStarted, match=f"PIECEWORK_{door}_TOKEN_ROLES.*{why}") as told:
        check_roles(names)
    assert "s3cret" not in str(told.value)
