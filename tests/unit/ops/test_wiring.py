"""The operator's door is open on a local machine alone, and says so."""

import pytest

from piecework.errors import SettingsError
from piecework.ops.wiring import OpsDoor

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
