"""The executor `completion` and its settings: environment names, the JSON secret, seeds, and being unconfigured."""

import json
import os
import subprocess
import sys

import pytest

from executors import completion as module
from executors.completion import PROFILES, completion
from local.model_server import ModelServer
from piecework.errors import Refused, Retryable, SettingsError, Unavailable
from piecework.extend.executors import registered
from piecework.extend.secrets import executor_values, secret
from piecework.extend.seeds import reusable_answer
from piecework.models.brain import Brain
from tests.support.runtime.completions import HeardLog, a_run, a_task, settings
from tests.support.runtime.requests import a_seed

URL = "http://127.0.0.1:9/v1"
ARN = {"PIECEWORK_EXECUTOR_SECRET_ARN": "arn:x"}


@pytest.fixture
def server(monkeypatch):
    with ModelServer(key="k-secret") as server:
        for name, value in settings(server.url).items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def unset(monkeypatch):
    for name in os.environ:
        if name.startswith("WATTETHERIA_"):
            monkeypatch.delenv(name)


def of(profile="default", **changed):
    return Brain.of_profile(settings(URL, **changed), profile, PROFILES[profile])


def test_it_is_registered_for_swarm_and_a2a_tasks_with_two_profiles():
    made = registered()["completion"]

    assert made.task_types == ("swarm", "a2a_invoke")
    assert list(made.profiles) == ["default", "fast"]


def test_the_models_answer_comes_with_evidence_of_this_attempt(server):
    run = a_run()

    outcome = completion(a_task(), run)

    assert outcome.output["answer"] == "as the model says"
    assert [item.content for item in run.collected_evidence] == ["trace:attempt-1"]
    (artifact,) = run.collected_artifacts
    assert json.loads(artifact.data) == {"task_id": "task-1", "execution_id": "exec-1", "output": outcome.output}
    assert run.facts["input_tokens"] == 11


def test_each_profile_has_its_own_model_and_budget(server, monkeypatch):
    monkeypatch.setenv("WATTETHERIA_BRAIN_MODEL_FAST", "m-fast")

    completion(a_task(profile="fast", settings=PROFILES["fast"]), a_run())
    completion(a_task(settings=PROFILES["default"]), a_run())

    bodies = [call["body"] for call in server.calls]
    assert [(body["model"], body["max_tokens"]) for body in bodies] == [("m-fast", 1_024), ("m-1", 4_096)]


def test_the_exact_earlier_answer_stands_at_the_decide_stage_without_a_call(server):
    run = a_run()

    outcome = completion(a_task(stage="decide", seed=a_seed({"answer": "earlier"})), run)

    assert outcome.output == {"answer": "earlier"}
    assert server.calls == []
    assert run.facts == {"reused_seed": 1}


def test_another_profile_than_the_default_answers_anew_at_the_decide_stage(server):
    run = a_run()

    completion(a_task(stage="decide", profile="fast", seed=a_seed({"answer": "earlier"})), run)

    assert len(server.calls) == 1
    assert "reused_seed" not in run.facts


@pytest.mark.parametrize(
    ("stage", "seed"),
    [
        ("decide", a_seed({"wrong": 1})),
        ("decide", a_seed({"answer": "earlier"}, "Similar")),
        ("decide", {"hits": [{"hit_type": "Exact"}]}),
        ("decide", None),
        ("explore", a_seed({"answer": "earlier"})),
        ("verify", a_seed({"answer": "earlier"})),
    ],
)
def test_nothing_else_is_reused(stage, seed):
    assert reusable_answer(a_task(stage=stage, seed=seed)) is None


def test_without_a_model_it_can_be_tried_again_and_the_log_says_what_to_set(unset):
    log = HeardLog()

    with pytest.raises(Retryable, match="a model is not configured") as raised:
        completion(a_task(), a_run(log=log))

    assert "WATTETHERIA" not in raised.value.message
    assert log.lines[0][0] == "completion_not_configured"
    assert "WATTETHERIA_BRAIN_PROVIDER_KIND" in log.lines[0][1]["problem"]


def test_bedrock_is_chosen_by_its_kind_and_needs_no_key(unset, monkeypatch):
    brain = Brain.of_profile(
        {"WATTETHERIA_BRAIN_PROVIDER_KIND": "bedrock", "WATTETHERIA_BRAIN_MODEL": "m"}, "default", PROFILES["default"]
    )

    assert type(module._model(brain)).__name__ == "BedrockModel"
    assert brain.key == ""


def test_importing_the_executor_loads_no_client():
    clients = ("h11", "urllib3", "http.client", "boto3", "botocore")
    code = f"import sys, executors.completion; print([m for m in {clients} if m in sys.modules])"

    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(("layers/piecework", "layers"))},
    )

    assert out.stdout.strip() == "[]"


def test_settings_have_the_references_names():
    brain = of()

    assert (brain.kind, brain.base_url, brain.model, brain.key) == ("openai-compatible", URL, "m-1", "k-secret")
    assert (brain.temperature, brain.max_tokens, brain.structured, brain.repairs) == (0.2, 4_096, "auto", 3)
    assert "k-secret" not in repr(brain)


def test_a_profiles_own_name_comes_first_then_the_plain_one_then_its_default():
    changed = {"TEMPERATURE": "0.5", "TEMPERATURE_FAST": "none", "CALL_MS": "7000", "REPAIRS_FAST": "0"}

    assert (of(**changed).temperature, of(**changed).call_ms, of(**changed).repairs) == (0.5, 7_000, 3)
    fast = of("fast", **changed)
    assert (fast.temperature, fast.call_ms, fast.repairs, fast.max_tokens) == (None, 7_000, 0, 1_024)


def test_the_keys_variable_can_be_named():
    values = {**settings(URL, API_KEY_ENV="MY_KEY"), "MY_KEY": "k-2"}

    assert Brain.of_profile(values, "default", PROFILES["default"]).key == "k-2"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"PROVIDER_KIND": ""}, ["PROVIDER_KIND"]),
        ({"PROVIDER_KIND": "other"}, ["PROVIDER_KIND"]),
        ({"BASE_URL": " ", "MODEL": "", "API_KEY": ""}, ["BASE_URL", "MODEL", "API_KEY"]),
        ({"BASE_URL": "ftp://h"}, ["BASE_URL"]),
        ({"BASE_URL": "http://user:pass@h/v1"}, ["BASE_URL"]),
        ({"BASE_URL": "http://h:99999/v1"}, ["BASE_URL"]),
        ({"BASE_URL": "http://h/v1?key=1"}, ["BASE_URL"]),
        ({"API_KEY": "k-secret\nX-Other: 1"}, ["API_KEY"]),
        ({"TEMPERATURE": "hot", "MAX_TOKENS": "-1"}, ["TEMPERATURE", "MAX_TOKENS"]),
        ({"TEMPERATURE": "nan"}, ["TEMPERATURE"]),
        ({"REPAIRS": "-1", "STRUCTURED_OUTPUT": "maybe"}, ["REPAIRS", "STRUCTURED_OUTPUT"]),
    ],
)
def test_every_wrong_setting_is_named_and_no_value_is_told(changed, named):
    with pytest.raises(SettingsError) as raised:
        of(**changed)

    assert all(f"WATTETHERIA_BRAIN_{name}" in raised.value.message for name in named)
    assert "k-secret" not in raised.value.message
    assert "pass@" not in raised.value.message


def test_members_of_the_json_secret_are_settings_and_variables_win():
    env = {**ARN, "A": "from the environment", "B": " "}

    values = executor_values(env, lambda arn: json.dumps({"A": "secret", "B": "secret", "C": arn}))

    assert (values["A"], values["B"], values["C"]) == ("from the environment", "secret", "arn:x")


def test_without_an_arn_no_secret_is_read():
    def never(arn):
        raise AssertionError(arn)

    assert secret("A", {"A": "1", "PIECEWORK_EXECUTOR_SECRET_ARN": ""}, never) == "1"


@pytest.mark.parametrize("text", ["k-secret", "[]", '{"A":1}', '{"A":"k-secret","B":null}'])
def test_a_secret_of_another_shape_is_a_settings_error_that_tells_nothing_of_it(text):
    with pytest.raises(SettingsError) as raised:
        executor_values(ARN, lambda arn: text)

    assert "k-secret" not in raised.value.message


def test_a_missing_secret_is_named():
    with pytest.raises(SettingsError, match="MISSING"):
        secret("MISSING", ARN, lambda arn: "{}")


def test_a_key_from_the_json_secret_reaches_the_endpoint(server, monkeypatch):
    monkeypatch.delenv("WATTETHERIA_BRAIN_API_KEY")
    monkeypatch.setenv("PIECEWORK_EXECUTOR_SECRET_ARN", "arn:x")
    monkeypatch.setattr("piecework.aws.secrets.secret_text", lambda arn: '{"WATTETHERIA_BRAIN_API_KEY":"k-secret"}')

    completion(a_task(), a_run())

    assert server.calls[0]["headers"]["authorization"] == "Bearer k-secret"


def test_a_secret_out_of_reach_can_be_tried_again(server, monkeypatch):
    def unreachable(arn):
        raise Unavailable("a secret is out of reach; try again")

    monkeypatch.setenv("PIECEWORK_EXECUTOR_SECRET_ARN", "arn:x")
    monkeypatch.setattr("piecework.aws.secrets.secret_text", unreachable)

    with pytest.raises(Unavailable):
        completion(a_task(), a_run())


def test_an_answer_that_never_holds_is_refused_for_good(server):
    server.follow(["misfit"])

    with pytest.raises(Refused):
        completion(a_task(), a_run())
    assert len(server.calls) == 4


def test_an_endpoint_that_takes_no_schemas_is_asked_plainly(server):
    server.takes_schemas = False

    assert completion(a_task(), a_run()).output["decision"] == "ACCEPT"
    assert "response_format" not in server.calls[0]["body"]
