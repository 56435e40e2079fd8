"""Replies of models, and what becomes of each: the next report of a strange reply is one line more in a table.

Every line goes through the whole executor path: an OpenAI-compatible endpoint over a socket, and Converse where it can
say the same. The model is asked again at most once; its second reply always fits, so `REPAIRED` means that the first
one was not taken.
"""

import json
import time
from dataclasses import replace

import pytest

from piecework.aws.bedrock import BedrockModel
from piecework.errors import Refused, Retryable, UpstreamFailed
from piecework.models.completing import Completion
from piecework.models.openai import OpenAiModel
from tests.support.misbehaving import answering, last
from tests.support.runtime.completions import BRAIN, HeardLog, a_run, a_task

TASK = a_task()
FORTY_TWO = {"answer": "forty-two", "confidence": 0.8}
GOOD = json.dumps(FORTY_TWO)
DRAFT = '{"answer":"a draft","confidence":0.1}'
REPAIRED = {"answer": "asked again"}
DECLINED, FAILED, LATER = "declined", "failed", "later"
OUTCOMES = {Refused: DECLINED, UpstreamFailed: FAILED, Retryable: LATER}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def a_chat(content=GOOD, end="stop", **choice):
    """An OpenAI-compatible answer with one choice."""
    message = {"role": "assistant", "content": content}
    ended = {"index": 0, "message": message, "finish_reason": end, **choice}
    return {"id": "c-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [ended], "usage": USAGE}


def a_converse(text=GOOD, end="end_turn"):
    """Converse's answer with one block of text."""
    message = {"role": "assistant", "content": [{"text": text}]}
    return {"output": {"message": message}, "stopReason": end, "usage": {"inputTokens": 11, "outputTokens": 7}}


def outcome(model, task=TASK, brain=BRAIN):
    """What the executor makes of a model's reply."""
    try:
        return Completion(task, a_run(log=HeardLog()), replace(brain, repairs=1), model).output()
    except (Refused, Retryable) as error:
        return next(told for kind, told in OUTCOMES.items() if isinstance(error, kind))


def of_chat(raw, task=TASK, *, status=200, brain=BRAIN):
    """The outcome of an endpoint's raw body."""
    again = last(json.dumps(a_chat(json.dumps(REPAIRED))).encode())
    with answering(last(raw, status), again) as server:
        return outcome(OpenAiModel(f"{server.url}/v1", "k"), task, brain)


def of_converse(answer, task=TASK):
    """The outcome of Converse's answer."""
    answers = [answer, a_converse(json.dumps(REPAIRED))]

    class Client:
        def converse(self, **request):
            return answers.pop(0)

    return outcome(BedrockModel(lambda seconds: Client()), task, replace(BRAIN, kind="bedrock"))


CHAT_ENDS = [
    *(
        (end, FORTY_TWO)
        for end in ("stop", "STOP", "eos", "eos_token", "stop_sequence", "end_turn", "COMPLETE", "", None)
    ),
    *((end, REPAIRED) for end in ("length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens")),
    ("model_context_window_exceeded", REPAIRED),
    *(
        (end, DECLINED)
        for end in ("content_filter", "sensitive", "refusal", "SAFETY", "RECITATION", "PROHIBITED_CONTENT")
    ),
    *(
        (end, FAILED)
        for end in ("error", "abort", "banana", "network_error", "insufficient_system_resource", "unknown")
    ),
    *(
        (end, FAILED)
        for end in ("tool_calls", "function_call", "MALFORMED_FUNCTION_CALL", "stop ", 1, True, ["stop"], {})
    ),
]
CONVERSE_ENDS = [
    *((end, FORTY_TWO) for end in ("end_turn", "stop_sequence")),
    *((end, REPAIRED) for end in ("max_tokens", "model_context_window_exceeded")),
    *((end, DECLINED) for end in ("guardrail_intervened", "content_filtered")),
    *((end, FAILED) for end in ("tool_use", "malformed_model_output", "malformed_tool_use", "banana", None, 5)),
]


@pytest.mark.parametrize(("end", "expected"), CHAT_ENDS)
def test_how_a_chat_reply_ended_decides_before_its_text(end, expected):
    assert of_chat(json.dumps(a_chat(end=end)).encode()) == expected


@pytest.mark.parametrize(("end", "expected"), CONVERSE_ENDS)
def test_how_a_converse_reply_ended_decides_before_its_text(end, expected):
    assert of_converse(a_converse(end=end)) == expected


CUT_TEXTS = {
    "half a sentence": "The claim holds under three conditions. First, the account must",
    "thoughts that never end": "<think>\nSo the user wants to know what life is about. I should look at",
    "a draft inside thoughts": f"<think>it could be {DRAFT}",
    "a draft, then doubt": f"Draft: {DRAFT}. On second thought, since the",
    "half a document": GOOD[:15],
    "nothing": "",
}


@pytest.mark.parametrize("text", CUT_TEXTS.values(), ids=CUT_TEXTS)
def test_of_a_reply_that_was_cut_nothing_is_taken(text):
    assert of_chat(json.dumps(a_chat(text, "length")).encode()) == REPAIRED
    assert of_converse(a_converse(text, "max_tokens")) == REPAIRED


def test_a_reply_that_is_cut_each_time_is_a_permanent_refusal():
    with answering(last(json.dumps(a_chat("The first", "length")).encode())) as server:
        assert outcome(OpenAiModel(f"{server.url}/v1", "k")) == DECLINED
        assert len(server.requests) == 2


TEXTS = {
    # reasoning in the marks of models and servers
    "think": f"<think>or {DRAFT}?</think>{GOOD}",
    "think, far from its answer": f"\n<think>\nor {DRAFT}?\n</think>\n\n\n{GOOD}\n",
    "thinking": f"<thinking>or {DRAFT}?</thinking>\n{GOOD}",
    "upper case": f"<THINK>or {DRAFT}?</THINK>\n{GOOD}",
    "thought": f"<thought>or {DRAFT}?</thought>{GOOD}",
    "reasoning": f"<reasoning>or {DRAFT}?</reasoning>{GOOD}",
    "antml:thinking": f"<antml:thinking>or {DRAFT}?</antml:thinking>{GOOD}",
    "seed:think": f"<seed:think>or {DRAFT}?</seed:think>{GOOD}",
    "[THINK]": f"[THINK]or {DRAFT}?[/THINK]{GOOD}",
    "◁think▷": f"◁think▷or {DRAFT}?◁/think▷{GOOD}",
    "START_THINKING": f"<|START_THINKING|>or {DRAFT}?<|END_THINKING|><|START_RESPONSE|>{GOOD}<|END_RESPONSE|>",
    "begin_of_thought": f"<|begin_of_thought|>{DRAFT}<|end_of_thought|><|begin_of_solution|>{GOOD}<|end_of_solution|>",
    "thought channel": f"<|channel>thought\nor {DRAFT}?<channel|>{GOOD}",
    "channels": "<|channel|>analysis<|message|>or "
    + DRAFT
    + "?<|end|><|start|>assistant<|channel|>final<|message|>"
    + GOOD,
    "channels, constrained": f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final "
    f"<|constrain|>JSON<|message|>{GOOD}<|return|>",
    "channels, the last one again": f"<|channel|>final<|message|>{GOOD}<|end|><|start|>assistant<|channel|>analysis"
    f"<|message|>or {DRAFT}?",
    "channels without their marks": f"analysisThe user wants JSON, maybe {DRAFT}.assistantfinal{GOOD}",
    "an answer in its own mark": f"<think>or {DRAFT}?</think>\n<answer>{GOOD}</answer>",
    "unopened": f"The user wants JSON. Maybe {DRAFT}?\n</think>\n\n{GOOD}",
    "unopened, behind a quotation": f'I say "yes"</think>{GOOD}',
    "unopened [/THINK]": f"Maybe {DRAFT}?[/THINK]{GOOD}",
    "twice": f"<think>a</think>{DRAFT}<think>no</think>{GOOD}",
    "empty": f"<think>\n\n</think>\n\n{GOOD}",
    "brackets in thoughts": f"<think>the set [a, b) and {{x</think>{GOOD}",
    "open": f"<think>it could be {DRAFT}",
    "open channel": f"<|channel|>analysis<|message|>it could be {DRAFT}",
    "open after an answer": f"{DRAFT}\n<think>or not?",
    "thoughts alone": f"<think>it is {DRAFT}</think>",
    # one right document beside others
    "the last that fits": f"First {DRAFT}, but better {GOOD}",
    "the one that fits": f'{GOOD}\nSources: {{"urls":["x"]}} [1]',
    "prose around": f"Sure! Here it is: {GOOD} Anything else?",
    "brackets in prose": f"For x in [0, 1) and {{y}}: {GOOD} (see [note])",
    "a document in prose brackets": f"[here: {GOOD}]",
    "an unpaired quotation mark": f'He said {{"wait. Then {GOOD}',
    "the first fence": f"```json\n{GOOD}\n```\nand the schema:\n```json\n{{}}\n```",
    "the second fence": f'The schema was\n```json\n{{"type":"object"}}\n```\nso\n```json\n{GOOD}\n```\n',
    "a fence that is not closed": f"```json\n{GOOD}",
    "one line": f"```{GOOD}```",
    "a byte order mark": f"\ufeff{GOOD}",
    # encoded once more
    "a string": json.dumps(GOOD),
    "a string in a string": json.dumps(json.dumps(GOOD)),
    "a string in a fence": f"```json\n{json.dumps(GOOD)}\n```",
    "the inside of a string": json.dumps(GOOD)[1:-1],
}
NOT_TAKEN = {"open", "open channel", "open after an answer", "thoughts alone"}


@pytest.mark.parametrize("name", TEXTS)
def test_the_answer_is_found_after_the_reasoning_and_beside_other_documents(name):
    expected = REPAIRED if name in NOT_TAKEN else FORTY_TWO

    assert of_chat(json.dumps(a_chat(TEXTS[name])).encode()) == expected
    assert of_converse(a_converse(TEXTS[name])) == expected


MARKS_AS_TEXT = {
    "in a document": '{"answer":"close it with </think>, or [/THINK]"}',
    "in a document, opened": '{"answer":"<think> opens it"}',
    "in a document with prose": 'Here: {"answer":"write <think>a</think> and then b"}',
    "a channel in a document": '{"answer":"<|channel|>analysis<|message|>hm"}',
}


@pytest.mark.parametrize("text", MARKS_AS_TEXT.values(), ids=MARKS_AS_TEXT)
def test_marks_inside_a_document_are_text(text):
    assert of_chat(json.dumps(a_chat(text)).encode()) == json.loads(text[text.index("{") :])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is blue.", "It is blue."),
        ("<think>red?</think>It is blue.", "It is blue."),
        ("red? no.\n</think>\nIt is blue.", "It is blue."),
        ("Write `</think>` behind it.", "Write `</think>` behind it."),
        ("<think>red?</think><answer>It is blue.</answer>", "It is blue."),
    ],
)
def test_prose_after_the_reasoning_is_the_answer_where_the_schema_takes_it(text, answer):
    assert of_chat(json.dumps(a_chat(text)).encode(), a_task({"type": "string"})) == answer


@pytest.mark.parametrize("text", [f'{{"answer": [{DRAFT}] oops}}', f'{{"a": {DRAFT}, }}', f'{{"a": {DRAFT}}} x}}'])
def test_a_part_of_a_broken_document_is_no_answer(text):
    assert of_chat(json.dumps(a_chat(text)).encode()) == REPAIRED


@pytest.mark.parametrize("text", ["<think>red, I think. Or", "<|channel|>analysis<|message|>red, I think"])
def test_unfinished_thoughts_are_not_an_answer_in_prose(text):
    answered = of_chat(json.dumps(a_chat(text)).encode(), a_task({}, output_schema={}))

    assert answered == REPAIRED


def test_a_whole_answer_behind_very_long_reasoning_is_kept():
    assert of_chat(json.dumps(a_chat("<think>" + "hm " * 40_000 + "</think>" + GOOD)).encode()) == FORTY_TWO


def test_what_we_shorten_ourselves_is_cut():
    long = json.dumps({**FORTY_TWO, "more": "x" * 70_000})

    assert of_chat(json.dumps(a_chat(f"{GOOD}\n{long}")).encode()) == REPAIRED
    assert of_converse(a_converse(f"{GOOD}\n{long}")) == REPAIRED


@pytest.mark.parametrize("fenced", [False, True])
def test_a_whole_answer_that_only_its_writing_makes_long_is_kept(fenced):
    for answer, writing in (("日" * 12_000, {}), ("yes", {"indent": 70_000})):
        text = json.dumps({**FORTY_TWO, "answer": answer}, **writing)
        text = f"```json\n{text}\n```" if fenced else text
        assert len(text) > 66_000
        assert of_chat(json.dumps(a_chat(text)).encode()) == {**FORTY_TWO, "answer": answer}


def test_a_reply_of_nothing_but_escapes_still_fits_a_step():
    assert of_chat(json.dumps(a_chat("\x01" * 66_000)).encode()) == REPAIRED


def with_member(text, name="message"):
    """A right answer whose message, or whose outside, has one more member as text."""
    raw = json.dumps(a_chat())
    place = '"role": "assistant"' if name == "message" else '"id": "c-1"'
    return raw.replace(place, f"{place}, {text}").encode()


ENVELOPES = {
    "reasoning twice": (with_member('"reasoning_content": "a", "reasoning_content": null'), FORTY_TWO),
    "NaN elsewhere": (with_member('"timings": {"per_second": NaN, "left": -Infinity}', "outside"), FORTY_TWO),
    "a number beyond doubles": (with_member('"took": 1e999', "outside"), FORTY_TWO),
    "a number of many digits": (with_member(f'"seed": {"9" * 5_000}', "outside"), FORTY_TWO),
    "half a character in the reasoning": (with_member('"reasoning_content": "cut \\ud83c"'), FORTY_TWO),
    "bytes that are not UTF-8": (with_member('"reasoning": "REPLACE"').replace(b"REPLACE", b"\xff\xfe"), FORTY_TWO),
    "a control character": (with_member('"reasoning": "a\tb\x01"'), FORTY_TWO),
    "a byte order mark": (b"\xef\xbb\xbf" + json.dumps(a_chat()).encode(), FORTY_TWO),
    "blank lines before it": (b"\n\n  \n" + json.dumps(a_chat()).encode(), FORTY_TWO),
    "deep nesting elsewhere": (with_member(f'"logprobs": {"[" * 200}{"]" * 200}'), FORTY_TWO),
    "the content twice, the same": (with_member(f'"content": {json.dumps(GOOD)}'), FORTY_TWO),
    "the content twice, different": (with_member('"content": "other"'), FAILED),
    "a member twice in the document": (json.dumps(a_chat('{"answer":"a","answer":"b"}')).encode(), REPAIRED),
    "NaN in the document": (json.dumps(a_chat('{"answer":"a","confidence":NaN}')).encode(), REPAIRED),
    "half a character in the document": (json.dumps(a_chat('{"answer":"\ud83c"}')).encode(), REPAIRED),
    "half a character in thoughts": (json.dumps(a_chat(f"<think>\ud83c</think>{GOOD}")).encode(), FORTY_TWO),
    "endless nesting": (b"[" * 50_000, FAILED),
    "a choice that failed": (json.dumps(a_chat("It is", "error", error={"code": 502})).encode(), FAILED),
    "an error beside a choice": (json.dumps({**a_chat(), "error": {"code": 502, "message": "gone"}}).encode(), FAILED),
    "an error without a code": (json.dumps({**a_chat(), "error": {"message": "gone"}}).encode(), FAILED),
    "an error as text": (json.dumps({**a_chat(), "error": "gone"}).encode(), FAILED),
    "reasoning as a part": (
        json.dumps(
            a_chat([{"type": "text", "text": GOOD[:9]}, {"text": GOOD[9:]}, {"type": "reasoning", "text": DRAFT}])
        ).encode(),
        FORTY_TWO,
    ),
    "no error": (json.dumps({**a_chat(), "error": None}).encode(), FORTY_TWO),
    "an overload inside 200": (json.dumps({"error": {"code": 429, "message": "slow down"}}).encode(), LATER),
    "an overload as text": (json.dumps({"error": {"code": "503"}}).encode(), LATER),
    "a filter inside 200": (json.dumps({"error": {"code": "content_filter"}}).encode(), DECLINED),
    "no choices": (json.dumps({**a_chat(), "choices": []}).encode(), DECLINED),
    "a refusal": (json.dumps(a_chat(None, message={"content": None, "refusal": "I will not"})).encode(), DECLINED),
    "a refusal of no one meaning": (with_member('"refusal": null, "refusal": ""'), FORTY_TWO),
    "an empty refusal": (json.dumps(a_chat(message={"content": GOOD, "refusal": ""})).encode(), FORTY_TWO),
    "no text": (json.dumps(a_chat(None)).encode(), FAILED),
    "nothing": (b"", FAILED),
    "null": (b"null", FAILED),
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_an_envelope_is_strict_only_in_what_is_used(name):
    raw, expected = ENVELOPES[name]

    assert of_chat(raw) == expected


AZURE = {
    "error": {
        "message": "the prompt was stopped by the filter",
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}},
    }
}
ERRORS = {
    "Azure's filter": (400, AZURE, DECLINED),
    "the inner code alone": (400, {"error": {"innererror": {"code": "ResponsibleAIPolicyViolation"}}}, DECLINED),
    "a policy": (400, {"error": {"code": "content_policy_violation"}}, DECLINED),
    "a flagged prompt": (400, {"error": {"code": "invalid_prompt", "type": "invalid_request_error"}}, DECLINED),
    "an inspection": (400, {"error": {"code": "data_inspection_failed"}}, DECLINED),
    "an inspection outside": (400, {"code": "DataInspectionFailed", "message": "x"}, DECLINED),
    "a number for unsafe text": (400, {"error": {"code": "1301"}}, DECLINED),
    "moderation": (403, {"error": {"code": 403, "metadata": {"reasons": ["x"], "flagged_input": "some"}}}, DECLINED),
    "a word in a text": (401, {"error": {"message": "content_filter", "code": "invalid_api_key"}}, FAILED),
    "throttled": (429, {"error": {"code": "rate_limit_exceeded"}}, LATER),
    "overloaded": (503, {"error": "overloaded"}, LATER),
    "no key": (401, {"error": {"code": "invalid_api_key"}}, FAILED),
    "a page": (403, "<html>", FAILED),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_told_by_its_status_and_by_the_code_it_states(name):
    status, document, expected = ERRORS[name]

    assert of_chat(json.dumps(document).encode(), status=status) == expected


FORM_REFUSED = {
    "cannot convert": (500, {"error": {"code": 500, "message": "the schema's pattern is not supported"}}),
    "an empty message": (500, {"error": {"code": 500, "message": "", "type": "InternalServerError"}}),
    "not implemented": (501, {"error": "no response_format here"}),
    "no provider": (404, {"error": {"code": 404, "message": "nobody takes these parameters"}}),
    "a gateway": (502, "<html>"),
    "not a parameter": (400, {"error": {"code": "unknown_parameter"}}),
    "not valid": (422, {"detail": [{"loc": ["body", "response_format"]}]}),
    "inside 200": (200, {"error": {"code": 500, "message": "grammar"}}),
}


@pytest.mark.parametrize("name", FORM_REFUSED)
def test_an_endpoint_that_cannot_take_the_form_is_asked_once_without_it(name):
    status, document = FORM_REFUSED[name]
    task = a_task({"type": "object", "required": ["answer"]})
    right = last(json.dumps(a_chat()).encode())
    with answering(last(json.dumps(document).encode(), status), right) as server:
        assert outcome(OpenAiModel(f"{server.url}/v1", "k"), task) == FORTY_TWO
        sent = [json.loads(request.body) for request in server.requests]

    assert ["response_format" in body for body in sent] == [True, False]


@pytest.mark.parametrize("status", [400, 404, 500, 501, 502])
def test_an_endpoint_that_fails_without_the_form_too_has_failed(status):
    with answering(last(b'{"error":{"code":"server_error"}}', status)) as server:
        assert outcome(OpenAiModel(f"{server.url}/v1", "k"), a_task({"type": "object"})) == FAILED
        assert len(server.requests) == 2


@pytest.mark.parametrize("status", [401, 402, 403, 408, 429, 503, 504, 529])
def test_a_failure_that_is_not_about_the_form_costs_no_second_question(status):
    with answering(last(b"{}", status)) as server:
        assert outcome(OpenAiModel(f"{server.url}/v1", "k"), a_task({"type": "object"})) in {FAILED, LATER}
        assert len(server.requests) == 1


@pytest.mark.parametrize("piece", ['{"a":1}<think>', "<think>{}", '{"a":1}<think></think>[['])
def test_marks_beside_many_documents_are_looked_at_once(piece):
    started = time.process_time()

    assert of_chat(json.dumps(a_chat(piece * 20_000)).encode()) == REPAIRED
    assert time.process_time() - started < 5  # it takes a tenth of a second; each mark against each document takes 20


def test_hostile_texts_are_read_in_bounded_time():
    from piecework.models.answers import read_answer
    from piecework.models.chat import Reply

    started = time.process_time()
    task = a_task({"type": "object", "required": ["n"]})
    pieces = (
        "[",
        "{",
        '{"',
        '{\\"',
        '{"a":',
        "[{",
        '"\\"',
        "<think>",
        "</think>",
        "<|channel|>a",
        "```",
        "{x",
        "<answer> ",
    )
    for piece in pieces:
        assert read_answer(task, Reply((piece * 66_000)[:66_000])).output is None
        assert read_answer(task, Reply(("[" * 139 + '"' + piece * 66_000)[:66_000])).output is None
    assert time.process_time() - started < 15  # of 3; without a bound on the work it takes 50
