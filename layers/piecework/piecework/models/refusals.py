"""What a chat endpoint's error means, by its status and by the code that it states.

    declined    a filter or the model's maker refuses this prompt: a permanent refusal
    overloaded  the endpoint has too many requests now
    rejected    this form of the request is refused; without `response_format` it may be accepted
    failed      anything else

Servers that cannot compile a schema say so with 400 or 422, and some with 404, 500, 501 or 502 (vLLM, Dynamo,
llama.cpp, aggregators without a provider), so these are worth one question without the form. Codes are compared whole;
the texts beside them may quote the prompt and are never read.
"""

from typing import Final

from piecework.errors import PieceworkError, Refused, Retryable, UpstreamFailed
from piecework.jsons import Json
from piecework.models.chat import QuestionRejected
from piecework.reasons import word_of, words_in

DECLINES: Final = "the model declines this task"
OVERLOADED: Final = frozenset({429, 503, 529})
REJECTED: Final = frozenset({400, 415, 422})
REJECTED_WITH_FORM: Final = frozenset({404, 405, 406, 500, 501, 502})
# OpenAI and Azure, Alibaba (data_inspection…), ByteDance (…SensitiveContentDetected), Zhipu (1301), Gemini's names.
DECLINED: Final = frozenset(
    {
        *("content_filter", "content_filtered", "content_policy_violation", "responsibleaipolicyviolation"),
        *("invalid_prompt", "moderation_blocked", "prompt_blocked", "safety_violation", "policy_violation", "refusal"),
        *("data_inspection_failed", "datainspectionfailed", "inputtextsensitivecontentdetected"),
        *("outputtextsensitivecontentdetected", "sensitivecontentdetected", "1301"),
        *("safety", "recitation", "prohibited_content", "blocklist", "spii", "guardrail_intervened"),
    }
)


def failure_of(status: int, answer: Json, *, has_form: bool) -> PieceworkError:
    """The error for a failed answer; `status` 0 means that the answer does not state one."""
    if _declines(answer):
        return Refused(DECLINES)
    if status in OVERLOADED:
        return Retryable("the model is throttled or overloaded; try again")
    text = f"the model's endpoint answered HTTP {status}" if status else "the model's endpoint answered with an error"
    if status in REJECTED or (has_form and status in REJECTED_WITH_FORM):
        return QuestionRejected(text)
    return UpstreamFailed(text)


def status_in(error: Json) -> int:
    """The HTTP status that an error inside an answer of 200 states; 0 when it states none."""
    stated = [error.get(name) for name in ("status", "status_code", "code")] if isinstance(error, dict) else []
    numbers = [int(word) for word in map(word_of, stated) if word.isdecimal()]
    return next((number for number in numbers if 400 <= number < 600), 0)


def _declines(answer: Json) -> bool:
    if any(word.lower() in DECLINED for word in words_in(answer)):
        return True
    error = answer.get("error") if isinstance(answer, dict) else None
    about = error.get("metadata") if isinstance(error, dict) else None
    return isinstance(about, dict) and bool(about.get("flagged_input"))  # OpenRouter's moderation
