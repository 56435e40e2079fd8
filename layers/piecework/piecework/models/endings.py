"""How a model's reply ended, which is checked before its text.

The lists are closed: an unknown end is a failure, because half an answer looks like a whole one. Case does not matter,
because aggregators pass on the names of the model's own maker.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class Ending(StrEnum):
    """What an end means for the reply."""

    WHOLE = "whole"  # the text is the model's answer
    CUT = "cut"  # its end is missing: the model is asked for a shorter one
    DECLINED = "declined"  # the model does not answer: a permanent refusal
    FAILED = "failed"  # the answer is unknown: the same question may be asked again


# OpenAI's own names, and those of servers that speak its protocol: TGI (eos_token, stop_sequence), Together (eos),
# Mistral (model_length), Zhipu (sensitive), proxies of Anthropic, Cohere and Gemini. KoboldCpp and small servers state
# no end, and OpenAI itself did so for a while; a cut then shows only in the text.
CHAT: Final[Mapping[str, Ending]] = {
    **dict.fromkeys(("", "stop", "stop_sequence", "eos", "eos_token", "end_turn", "complete"), Ending.WHOLE),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "max_length"), Ending.CUT),
    "model_context_window_exceeded": Ending.CUT,
    **dict.fromkeys(("content_filter", "content_filtered", "sensitive", "refusal", "safety"), Ending.DECLINED),
    **dict.fromkeys(("recitation", "prohibited_content", "blocklist", "spii"), Ending.DECLINED),
    "guardrail_intervened": Ending.DECLINED,
}
# Every `stopReason` that botocore's model of Converse names; `tool_use` and the malformed ones are failures.
CONVERSE: Final[Mapping[str, Ending]] = {
    **dict.fromkeys(("end_turn", "stop_sequence"), Ending.WHOLE),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), Ending.CUT),
    **dict.fromkeys(("guardrail_intervened", "content_filtered"), Ending.DECLINED),
}


def ending_of(reason: Any, known: Mapping[str, Ending]) -> Ending:
    """The meaning of an end; an absent end is the empty name."""
    name = "" if reason is None else reason
    return known.get(name.lower(), Ending.FAILED) if isinstance(name, str) else Ending.FAILED
