"""`completion`: a chat model does the work, behind an OpenAI-compatible endpoint or Amazon Bedrock.

The reference's environment names (`WATTETHERIA_BRAIN_…`, see docs/completion.md) configure it. Packages that only a
call needs (h11, boto3) are imported with the first task.
"""

import os
from typing import Any, Final

from piecework.errors import SettingsError
from piecework.executor_secrets import executor_values
from piecework.executors import Outcome, Retryable, Run, Task, executor
from piecework.jsons import Json, canonical
from piecework.models.brain import Brain
from piecework.models.chat import Model
from piecework.models.completing import Completion
from piecework.reasons import Warn, silent
from piecework.seeds import reusable_answer

PROFILES: Final[dict[str, dict[str, Any]]] = {
    "default": {"temperature": 0.2, "max_tokens": 4_096, "call_ms": 60_000, "budget_ms": 110_000, "repairs": 3},
    "fast": {"temperature": 0.2, "max_tokens": 1_024, "call_ms": 10_000, "budget_ms": 20_000, "repairs": 2},
}


@executor("completion", task_types=("swarm", "a2a_invoke"), profiles=PROFILES, expected_ms=8_000)
def completion(task: Task, run: Run) -> Outcome:
    """Reuse the exact earlier answer if the kernel offers one at the decide stage, else ask the model."""
    reusable = reusable_answer(task)
    if reusable is not None:
        run.note(reused_seed=1)
        return _outcome(task, run, reusable[0])
    brain = _brain(task, run)
    return _outcome(task, run, Completion(task, run, brain, _model(brain, run.log.warning)).output())


def _brain(task: Task, run: Run) -> Brain:
    try:
        values = executor_values(os.environ, _read_secret)
        return Brain.of_profile(values, task.profile, {**PROFILES["default"], **task.settings})
    except SettingsError as error:
        run.log.warning("completion_not_configured", problem=error.message)
        raise Retryable("a model is not configured for this executor; the operator's log says what to set") from error


def _model(brain: Brain, warn: Warn = silent) -> Model:
    if brain.kind == "bedrock":
        from piecework.aws.bedrock import BedrockModel, bedrock_client

        return BedrockModel(bedrock_client)
    from piecework.models.openai import OpenAiModel

    return OpenAiModel(brain.base_url, brain.key, tokens_member=brain.tokens_member, warn=warn)


def _read_secret(arn: str) -> str:
    from piecework.aws.secrets import secret_text

    return secret_text(arn)


def _outcome(task: Task, run: Run, output: Json) -> Outcome:
    """The output with a trace line, and a copy under a digest of its own, which other nodes count as new evidence."""
    run.evidence(f"trace:{task.attempt_id}")
    record = {"task_id": task.task_id, "execution_id": task.execution_id, "output": output}
    run.artifact("answer", canonical(record), "application/json")
    return Outcome(output)
