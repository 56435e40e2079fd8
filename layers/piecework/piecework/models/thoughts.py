r"""Where a model's reasoning ends and its answer begins, in a text that may hold both.

Servers that know their model put its reasoning into a separate member. Others leave it in the text, between the marks
that the model was trained on. The opening mark may be missing (the prompt's template wrote it), and so may the closing
one (the model did not reach its answer). Marks inside a JSON document or in quotes do not count.

    <think>…</think>  …</think>  [THINK]…[/THINK]  ◁think▷…◁/think▷  <|START_THINKING|>…<|END_THINKING|>
    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…      (gpt-oss, "harmony")
    <|channel>thought…<channel|>                                                              (Gemma 4)
"""

import re
from bisect import bisect_right
from typing import Final

from piecework.errors import BadRequest
from piecework.jsons import loads_exact
from piecework.models.documents import documents

_WORDS: Final = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think|longcat_think"
_MARK: Final = re.compile(
    rf"(?P<open><(?:antml:|ant)?(?:{_WORDS})>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|begin_of_thought\|>"
    r"|<\|think\|>|<\|inner_prefix\|>|<\|channel>\s*thought\b|<unused94>thought\b)"
    rf"|(?P<close></(?:antml:|ant)?(?:{_WORDS})>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>"
    r"|<\|/think\|>|<\|inner_suffix\|>|<channel\|>|<unused95>)",
    re.IGNORECASE,
)
_CHANNEL: Final = re.compile(
    r"<\|channel\|>\s{0,9}+(\w{0,30}+)[^<]{0,200}+(?:<\|constrain\|>[^<]{0,50}+)?<\|message\|>", re.IGNORECASE
)
_CHANNEL_END: Final = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_BARE_CHANNELS: Final = re.compile(r"\A\s*analysis(?=[A-Z\s]).*?assistant\s*final", re.DOTALL)  # the marks were dropped
_ANSWER_MARKS: Final = re.compile(
    r"\A\s*(?:<(?:answer|response|final_answer|output)>|<\|START_RESPONSE\|>|<\|begin_of_solution\|>|<\|begin_of_box\|>)"
    r"(.*?)"
    r"(?:</(?:answer|response|final_answer|output)>|<\|END_RESPONSE\|>|<\|end_of_solution\|>|<\|end_of_box\|>|\Z)\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
FINAL: Final = "final"
QUOTES: Final = frozenset("`'\"")


def after_thoughts(text: str) -> str:
    """The answer without the reasoning; empty if the text ends inside the reasoning."""
    text = text.strip().removeprefix("\ufeff").strip()
    if _is_document(text):
        return text
    if _CHANNEL.search(text):
        text = _final_channel(text)
    elif bare := _BARE_CHANNELS.match(text):
        text = text[bare.end() :]
    answer = _after_marks(text).strip()
    inside = _ANSWER_MARKS.match(answer)
    return inside[1].strip() if inside else answer


def _is_document(text: str) -> bool:
    try:
        loads_exact(text)
    except BadRequest:
        return False
    return True


def _final_channel(text: str) -> str:
    finals = [channel for channel in _CHANNEL.finditer(text) if channel[1].lower() == FINAL]
    if not finals:
        return ""
    start = finals[-1].end()
    end = _CHANNEL_END.search(text, start)
    return text[start : end.start() if end else len(text)]


def _after_marks(text: str) -> str:
    """The text behind the last closing mark; empty if an opening mark follows it."""
    marks = [mark for mark in _MARK.finditer(text) if not _is_quoted(mark)]
    if not marks:
        return text
    found = list(documents(text))
    ends = [document.end for document in found]  # in their order, so that a mark is not compared with every document
    for mark in reversed(marks):
        nearest = bisect_right(ends, mark.start())
        if nearest == len(found) or mark.start() <= found[nearest].start:
            return text[mark.end() :] if mark.lastgroup == "close" else ""
    return text


def _is_quoted(mark: re.Match[str]) -> bool:
    before, after = mark.string[mark.start() - 1 : mark.start()], mark.string[mark.end() : mark.end() + 1]
    return before == after and before in QUOTES
