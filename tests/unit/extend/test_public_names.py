"""What users import keeps its name and what it offers, wherever the code itself lies."""

import importlib

import pytest

import piecework

NAMES = {
    "piecework.aws.bedrock": "BedrockModel bedrock_client",
    "piecework.aws.secrets": "secret_text",
    "piecework.errors": "PieceworkError Refused InputRefused Retryable UpstreamFailed SettingsError",
    "piecework.event_hook": "AgentEvent Decision on_agent_event EVENT_TYPES SOURCE_KINDS ROUTES",
    "piecework.executor_secrets": "executor_values secret SECRET_ARN",
    "piecework.executors": (
        "Artifact Evidence Executor ForgetfulSteps InputRefused Log Outcome PolicyDenied Refused Retryable Run"
        " SilentLog Stage Step Steps Task ToolFailed executor no_tools registered"
    ),
    "piecework.jsons": "Json canonical loads loads_exact",
    "piecework.models": "",
    "piecework.models.answers": "",
    "piecework.models.brain": "Brain",
    "piecework.models.chat": "Model Reply",
    "piecework.models.completing": "Completion",
    "piecework.models.openai": "OpenAiModel",
    "piecework.models.prompt": "",
    "piecework.policies": (
        "COMMON_CODES CUSTOM_ERROR SCHEMA_OK SCHEMA_INVALID CONFIDENCE_TOO_LOW OUTPUT_TOO_LARGE CHECK_SUMMARY_MISSING"
        " SCORE_TOO_LOW EVIDENCE_UNREACHABLE EVIDENCE_TIMEOUT EVIDENCE_AUTH_DENIED EVIDENCE_DIGEST_MISMATCH"
        " Candidate Policy Verdict policy"
    ),
    "piecework.reasons": "Warn silent",
    "piecework.samples": "ANY_TEXT CannotFill fill",
    "piecework.schemas": "SchemaRejected compile_schema",
    "piecework.seeds": "hits reusable_answer",
    "piecework.testing": "KeptSteps Ran run_executor",
}


@pytest.mark.parametrize("module", NAMES)
def test_a_module_for_users_offers_what_it_offered(module):
    found = importlib.import_module(module)

    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []
    assert set(getattr(found, "__all__", ())) <= set(dir(found))


def test_the_public_list_and_this_one_are_the_same():
    assert {".".join(name.split(".")[:2]) if name.startswith("piecework.models") else name for name in NAMES} == set(
        piecework.PUBLIC
    )


@pytest.mark.parametrize("module", ["executors", "policies", "event_hook", "seeds"])
def test_a_thin_module_has_the_very_objects_of_its_source(module):
    thin = importlib.import_module(f"piecework.{module}")
    source = importlib.import_module(f"piecework.extend.{module}")

    assert all(getattr(thin, name) is getattr(source, name) for name in thin.__all__)
