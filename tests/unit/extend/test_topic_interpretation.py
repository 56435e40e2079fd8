"""topic_interpretation: whole words, negation, doubt; the right proposal; an answer and evidence that fit."""

import json
import time

import pytest

from executors.topic_interpretation import EVIDENCE_BYTES, SURE, UNSURE, evidence_of, stance_of, topic_interpretation
from piecework.extend.executors import Refused, Run, Task
from piecework.jsons import loads
from piecework.schemas import compile_schema, minimal_ok
from tests.support.runtime.agent_events import (
    TOPIC_SCHEMA,
    a_deliberation,
    a_proposal,
    a_reply,
    examples,
    size_of,
    topic_inputs,
)


def a_task(inputs, schema=TOPIC_SCHEMA, **changed):
    checker = compile_schema(schema)

    def problem(output):
        return None if minimal_ok(schema, output) and checker.is_valid(output) else "it does not fit"

    fields = {
        "door": "runtime",
        "caller": "kernel",
        "task_type": "topic_interpretation",
        "prompt": None,
        "inputs": inputs,
        "output_schema": schema,
        "task_id": "topic-interpretation-1",
        "execution_id": "exec-p-1",
        "attempt_id": "exec-p-1",
        "deadline_ms": 0,
        "contract": {},
        "check": problem,
    }
    return Task(**{**fields, **changed})


def a_run():
    return Run(remaining_ms=lambda: 5_000)


def interpret(text="I support this.", **inputs):
    return topic_interpretation(a_task(topic_inputs(text, **inputs)), a_run()).output


def by_reply(text, reply_to, *proposals):
    return interpret(source_message=a_reply(text, reply_to), candidate_proposals=list(proposals))


@pytest.mark.parametrize(
    ("text", "stance"),
    [
        ("I support this", "support"),
        ("AGREED!", "support"),
        ("approve", "support"),
        ("Let us adopt it.", "support"),
        ("+1", "support"),
        ("👍🏽", "support"),
        ("I couldn't agree more", "support"),
        ("Not only do I support it, I approve of all of it", "support"),
        ("No, I agree", "support"),
        ("I disagree", "reject"),
        ("I reject this", "reject"),
        ("We oppose it", "reject"),
        ("I'm against it", "reject"),
        ("I am against adopting this", "reject"),
        ("I decline to support it", "reject"),
        ("I disapprove", "reject"),
        ("-1", "reject"),
        ("I abstain", "abstain"),
        ("neutral", "abstain"),
        ("", "none"),
        ("What a fine day", "none"),
    ],
)
def test_a_plain_statement_has_its_stance(text, stance):
    assert stance_of(text) == stance


@pytest.mark.parametrize(
    ("text", "stance"),
    [
        ("I do not agree", "reject"),
        ("I don't support it", "reject"),
        ("I don’t support it", "reject"),
        ("I dont support it", "reject"),
        ("I cannot approve this", "reject"),
        ("I don't think that we should support it", "reject"),
        ("I never agreed", "reject"),
        ("I don't support it; I reject it", "reject"),
        ("I no longer support it", "reject"),
        ("I no longer oppose it", "abstain"),
        ("I can't reject this", "abstain"),
        ("I'm not against it", "abstain"),
        ("I'm not against it. I support it.", "support"),
        ("I won't abstain", "none"),
        ("Not the same as before", "none"),
    ],
)
def test_negation_turns_a_word_round_and_never_into_the_opposite_vote_by_chance(text, stance):
    assert stance_of(text, prior="support") == stance


@pytest.mark.parametrize(
    "text",
    [
        "I support the goal but reject this proposal",
        "I support this if it gets cheaper",
        "Maybe I would support it",
        "Do you agree?",
        "Should we reject it?",
        "I do not, however, support this",
        "I do not\nsupport this",
        "I do not under any circumstances whatsoever think we should support it",
        "I agree with nothing here",
        "I support it not",
        "I support it. I don't support the date.",
        "I don't agree that we should reject it",
        "unsupported",
        "This is disagreeable",
        "Alice supports this",
        "Ich stimme zu",
        "Я согласен",
        "x" * 30_000 + " I support it",
    ],
)
def test_what_leaves_room_for_doubt_is_no_stance(text):
    assert stance_of(text) == "none"


@pytest.mark.parametrize(
    ("text", "stance"),
    [
        ("ＡＧＲＥＥ", "support"),
        ("dis\u200bagree", "reject"),
        ("dis\u00adagree", "reject"),
        ("dis-agree", "reject"),
        ("dis\u2060agree", "reject"),
        ("d\u0336i\u0336s\u0336agree", "reject"),
        ("dis\u0430gree", "none"),
        ("**agree**", "support"),
        ("_agree_", "support"),
        ("> I reject this\nI agree", "support"),
        ("İ agree", "support"),
    ],
)
def test_unicode_cannot_hide_half_of_a_word(text, stance):
    assert stance_of(text) == stance


@pytest.mark.parametrize(
    ("decisions", "stance"),
    [
        (["support"], "support"),
        (["reject", "support"], "reject"),
        (["abstain"], "abstain"),
        (["Support"], "none"),
        (["adopted", "support"], "none"),
        ([["support"]], "none"),
        ([], "none"),
    ],
)
def test_same_as_before_is_the_first_prior_decision_when_it_is_a_stance(decisions, stance):
    output = interpret("Same as before.", prior_deliberations=[a_deliberation(decision) for decision in decisions])

    assert output["stance"] == stance
    assert output["needs_review"] is (stance == "none")


@pytest.mark.parametrize(
    ("text", "stance"),
    [
        ("I reject it this time, not same as before", "reject"),
        ("I reject it. Same as before.", "reject"),
        ("Same as before; otherwise neutral", "support"),
        ("I agree, though neutral on the date", "support"),
    ],
)
def test_a_stated_stance_outranks_the_prior_one_and_that_outranks_abstaining(text, stance):
    assert stance_of(text, prior="support") == stance


def test_a_reply_is_about_the_proposal_it_replies_to():
    output = by_reply("I support prop-1", "msg-prop-2", a_proposal(1), a_proposal(2))

    assert (output["proposal_id"], output["proposal_message_id"]) == ("prop-2", "msg-prop-2")


def test_a_reply_to_something_else_is_about_no_proposal_not_even_the_only_one():
    output = by_reply("I support this", "msg-chat", a_proposal(1))

    assert (output["proposal_id"], output["needs_review"], output["confidence"]) == ("", True, UNSURE)


@pytest.mark.parametrize("blank", [None, "", "  ", 5])
def test_a_blank_reply_leaves_the_only_proposal(blank):
    assert by_reply("I support this", blank, a_proposal(1))["proposal_id"] == "prop-1"


@pytest.mark.parametrize(
    ("text", "proposal_id"),
    [
        ("I support PROP-2", "prop-2"),
        ("I support prop-10", "prop-10"),
        ("I support (prop-1).", "prop-1"),
        ("I support prop-1 over prop-2", ""),
        ("I support this", ""),
    ],
)
def test_of_several_proposals_the_only_one_named_is_meant(text, proposal_id):
    output = interpret(text, candidate_proposals=[a_proposal(1), a_proposal(2), a_proposal(10)])

    assert output["proposal_id"] == proposal_id
    assert output["needs_review"] is (proposal_id == "")


def test_a_proposal_offered_twice_is_one_and_broken_ones_are_none():
    output = interpret(
        candidate_proposals=[
            5,
            {},
            a_proposal(3, proposal_id=None),
            a_proposal(4, proposal_id=" "),
            a_proposal(1),
            a_proposal(1),
        ]
    )

    assert output["proposal_id"] == "prop-1"


@pytest.mark.parametrize("source", [..., None, "text", [], 5])
def test_a_missing_or_shapeless_source_message_is_refused(source):
    inputs = {name: value for name, value in topic_inputs(source_message=source).items() if value is not ...}

    with pytest.raises(Refused, match=r"inputs\.source_message"):
        topic_interpretation(a_task(inputs), a_run())


@pytest.mark.parametrize("inputs", [None, [1], "text"])
def test_inputs_of_another_kind_are_refused(inputs):
    with pytest.raises(Refused):
        topic_interpretation(a_task(inputs), a_run())


def test_the_output_has_exactly_the_specified_members():
    output = interpret("  I support this.  ")

    assert output == {
        "source_message_id": "msg-1",
        "proposal_id": "prop-1",
        "proposal_message_id": "msg-prop-1",
        "stance": "support",
        "answer": "I support this.",
        "summary": "I support this.",
        "confidence": SURE,
        "needs_review": False,
        "evidence": [{"kind": "message_quote", "message_id": "msg-1", "quote": "I support this."}],
    }


def test_a_message_without_text_is_reviewed_and_quotes_nothing():
    output = interpret(source_message={"message_id": "msg-1", "text": " ", "content": {"kind": "image"}})

    assert (output["stance"], output["evidence"], output["needs_review"]) == ("none", [], True)
    assert output["answer"] == output["summary"] != ""


def test_text_that_is_only_in_content_is_read():
    assert interpret(source_message={"message_id": "m", "content": "I agree"})["stance"] == "support"


def test_a_message_without_an_id_is_reviewed():
    assert interpret(source_message={"text": "I agree"})["needs_review"] is True


def test_a_schema_that_wants_more_is_refused():
    schema = {**TOPIC_SCHEMA, "required": [*TOPIC_SCHEMA["required"], "signature"]}

    with pytest.raises(Refused, match="output_schema"):
        topic_interpretation(a_task(topic_inputs(), schema), a_run())


def test_a_schema_without_evidence_gets_none():
    properties = {name: rule for name, rule in TOPIC_SCHEMA["properties"].items() if name != "evidence"}
    schema = {**TOPIC_SCHEMA, "properties": properties, "additionalProperties": False}

    output = topic_interpretation(a_task(topic_inputs(), schema), a_run()).output

    assert "evidence" not in output


@pytest.mark.parametrize("letter", ["x", "☕", "\u0001", '"', "😀"])
def test_a_huge_message_still_makes_an_output_of_64_kib_and_is_reviewed(letter):
    output = interpret(letter * 100_000)

    assert size_of(output) <= 65_536
    assert output["needs_review"] is True


def test_the_artifact_holds_what_the_digest_covers():
    run = a_run()

    topic_interpretation(a_task(topic_inputs()), run)

    (artifact,) = run.collected_artifacts
    assert artifact.data == b"topic-interpretation-1|exec-p-1|support|prop-1"


@pytest.mark.parametrize("letter", ["x", "☕", "\\", '"', "\u0001"])
@pytest.mark.parametrize("count", [1, 60, 5_000])
def test_inline_evidence_parses_and_fits_whatever_it_is_made_from(letter, count):
    inputs = topic_inputs(
        candidate_proposals=[a_proposal(number, goal=letter * 3_000) for number in range(count)],
        prior_deliberations=[a_deliberation("support")] * count,
    )

    raw = evidence_of(inputs["source_message"], inputs)

    assert len(raw) <= EVIDENCE_BYTES
    assert len(json.dumps(raw.decode(), ensure_ascii=False).encode()) <= 120_000
    assert set(loads(raw)) == {
        *("source_message_id", "reply_to_message_id", "candidate_proposals", "prior_deliberations", "truncated"),
    }
    assert loads(raw)["truncated"] is True


def test_small_evidence_is_whole():
    inputs = topic_inputs(prior_deliberations=[a_deliberation("support")])

    kept = loads(evidence_of(inputs["source_message"], inputs))

    assert kept["candidate_proposals"] == inputs["candidate_proposals"]
    assert kept["prior_deliberations"] == inputs["prior_deliberations"]
    assert kept["truncated"] is False


def test_a_smaller_limit_of_the_contract_is_kept():
    task = a_task(
        topic_inputs(candidate_proposals=[a_proposal(number) for number in range(100)]),
        contract={"evidence_policy": {"max_inline_evidence_bytes": 1_000}},
    )
    run = a_run()

    topic_interpretation(task, run)

    assert len(run.collected_evidence[0].content.encode()) <= 1_000


@pytest.mark.parametrize(
    "text",
    [
        "support " * 2_500,
        "not, " * 4_000,
        "no " * 6_000,
        "\n" * 19_999,
        "can " * 5_000,
        " " * 19_999 + ">",
        "-1" * 9_999,
    ],
)
def test_hostile_texts_are_read_in_little_time(text):
    started = time.process_time()

    stance_of(text)

    assert time.process_time() - started < 5


def test_the_page_about_topics_shows_inputs_and_their_output():
    inputs, output = examples("runtime/topics.md")

    assert topic_interpretation(a_task(inputs), a_run()).output == output
