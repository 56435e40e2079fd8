"""The operator's door is open on a local machine alone, and says so."""

from types import SimpleNamespace

import pytest

from piecework.edge.http import Request
from piecework.errors import NotFound, SettingsError, Unauthorized
from piecework.ops.door import Asked
from piecework.ops.wiring import OpsDoor
from tests.support.ops.logs import FakeLogs
from tests.support.ops.requests import VIEWER, an_event

LOCAL = {"AWS_ENDPOINT_URL": "http://127.0.0.1:8792"}


@pytest.mark.parametrize("env", [{}, {"PIECEWORK_OPS_TOKENS": ""}, {"AWS_ENDPOINT_URL": "https://vpce.example"}])
def test_without_tokens_the_door_does_not_start_on_aws(env):
    with pytest.raises(SettingsError, match="never open"):
        OpsDoor(env).ready("access")


def test_on_a_local_machine_it_starts_open_and_says_so(caplog):
    access = OpsDoor({**LOCAL, "POWERTOOLS_SERVICE_NAME": "ops"}).access

    assert access.caller("").name == ""
    assert "door_is_open" in caplog.messages


@pytest.mark.parametrize(
    ("name", "text"),
    [("PIECEWORK_OPS_TOKENS", ","), ("PIECEWORK_OPS_TOKENS", "ann"), ("PIECEWORK_OPS_TOKEN_ROLES", "ann=king")],
)
def test_tokens_or_roles_that_cannot_be_read_stop_the_start(name, text):
    env = {**LOCAL, "PIECEWORK_OPS_TOKENS": "ann=s3cret", name: text}

    with pytest.raises(SettingsError) as told:
        OpsDoor(env).ready("access")
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize(
    ("level", "is_logged"), [("INFO", True), ("debug", True), ("WARNING", False), ("ERROR", False)]
)
def test_the_list_of_verdicts_says_when_no_lines_are_written_and_asks_the_group_that_it_was_given(level, is_logged):
    logs = FakeLogs()
    logs.verdict()
    group = {"PIECEWORK_VERIFY_LOG_GROUP": "verify", "PIECEWORK_LOG_RETENTION_DAYS": "7"}
    door = OpsDoor({**LOCAL, **group, "POWERTOOLS_LOG_LEVEL": level})
    door.__dict__["_clients"] = SimpleNamespace(logs=logs)

    page = door.verdicts(Asked(Request.from_event(an_event("/ops/verdicts"), lambda: 9_000), VIEWER, {}))

    assert page["is_logged"] is is_logged
    assert {entry["logGroupName"] for entry in logs.asked} == {"verify"}


def test_a_stack_without_the_runtime_door_has_no_verdicts():
    with pytest.raises(NotFound, match="runtime door"):
        OpsDoor(LOCAL).verdicts(Asked(Request.from_event(an_event("/ops/verdicts"), lambda: 9_000), VIEWER, {}))


ISSUER = {
    "PIECEWORK_OPS_ISSUER": "https://issuer.example",
    "PIECEWORK_OPS_CLIENT_ID": "console",
    "PIECEWORK_OPS_GROUP_ROLES": "ops=operator",
}


def test_with_people_alone_the_door_starts_and_is_not_open(caplog):
    for env in (ISSUER, {**ISSUER, **LOCAL}):
        access = OpsDoor(env).ready("access").access
        for credential in ("", "Bearer x", "Basic YTpi", "Bearer eyJ.a.b"):
            with pytest.raises(Unauthorized):
                access.caller(credential)
    assert "door_is_open" not in caplog.messages


@pytest.mark.parametrize(
    "wrong",
    [
        {"PIECEWORK_OPS_ISSUER": "http://issuer.example"},
        {"PIECEWORK_OPS_ISSUER": "https://user@issuer.example"},
        {"PIECEWORK_OPS_ISSUER": "https://issuer.example?a=b"},
        {"PIECEWORK_OPS_ISSUER": "https://[issuer.example"},
        {"PIECEWORK_OPS_ISSUER": "issuer.example"},
        {"PIECEWORK_OPS_CLIENT_ID": ""},
        {"PIECEWORK_OPS_GROUP_ROLES": ""},
        {"PIECEWORK_OPS_GROUP_ROLES": "ops=king"},
    ],
)
def test_a_sign_in_that_cannot_be_read_stops_the_start(wrong):
    with pytest.raises(SettingsError):
        OpsDoor({**ISSUER, **wrong}).ready("access")


def test_browsers_are_told_that_there_is_no_sign_in():
    assert OpsDoor(LOCAL).sign_in(None) == {"kind": "tokens"}
