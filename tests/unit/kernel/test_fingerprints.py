"""What makes two calls with one idempotency key the same call."""

import pytest

from piecework.kernel.decide.intents import standing_answer
from piecework.kernel.errors import Conflict
from piecework.kernel.model.changes import IdempotencyRecord
from piecework.kernel.model.commands import Intent
from tests.support.kernel.desk import Desk
from tests.support.kernel.story import Story

EXACT = [2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**64 + 2**12, -(2**63), -(2**63) - 1, 10**399 + 1, 10**399, 10**1_099]
APART = [*EXACT, float(2**64), 1, 1.0, True, "1", None, [1], {"1": 1}, {}, [], "18446744073709551616", 0.1, 1e-07]


@pytest.fixture
def work():
    return Desk().work()


@pytest.mark.parametrize("number", EXACT)
def test_a_number_of_any_length_may_stand_in_a_call_with_a_key(work, number):
    first = work.call(arguments={"n": number}, idempotency_key="k")
    again = work.call(arguments={"n": number}, idempotency_key="k")

    assert (first.status_code, again.status_code) == (200, 200), first.text
    assert first.json() == again.json()
    assert work.desk.events(work.id)[-1]["payload"]["arguments"] == {"n": number}


def is_repeat(story: Story, key: str, value: object) -> bool:
    """Whether a call counts as the one that the key stands for."""
    try:
        return (
            standing_answer(story.read(key), Intent("invoke_tool", "t", [value], True, idempotency_key=key)) is not None
        )
    except Conflict:
        return False


def test_calls_that_differ_at_all_are_not_one_call():
    story = Story().assigned()
    keys = {f"k{place}": value for place, value in enumerate(APART)}
    for key, value in keys.items():
        story.invoke("t", arguments=[value], idempotency_key=key)

    taken = [(value, other) for key, value in keys.items() for other in APART if is_repeat(story, key, other)]

    assert [(value, other) for value, other in taken if value is not other] == []
    assert len(taken) == len(APART)


def test_the_order_of_members_and_the_spelling_of_a_double_do_not_make_another_call(work):
    ids = f'"execution_id": "{work.id}", "session_id": "{work.session_id}"'
    call = f'{{{ids}, "intent": {{"type": "invoke_tool", "tool_id": "t", "idempotency_key": "k", "arguments": %s}}}}'

    answers = [
        work.desk.client.post("/v0/agents/intent", content=call % arguments)
        for arguments in ('{"a": 1.50, "b": 1e2}', '{"b": 100.0, "a": 1.5}')
    ]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        ({"q": "vpn"}, "a1849eaa8b7bd513166d70520e0e80da4ad6dc803733d6ba190949f0da9b913c"),
        ({"n": 2**64}, "eb7343f18791d6808d9942d3cf002ac35a97c9f40986ea0aaaa2dcb2b1bd089d"),
        ({"n": 2**64 + 1}, "eb7343f18791d6808d9942d3cf002ac35a97c9f40986ea0aaaa2dcb2b1bd089d"),
        (
            {"n": 1e-07, "text": "é\u2028", "id": "12345678901234567890"},
            "7587f378f8bee02c349df572d12d53259b2298889930c047a774828013cba353",
        ),
    ],
)
def test_a_repeat_matches_what_earlier_code_stored(arguments, stored):
    intent = Intent("invoke_tool", "notes.find", arguments, True, idempotency_key="k")
    story = Story().assigned()
    story.answers["k"] = IdempotencyRecord("k", stored, {"accepted": True, "step_id": ""})

    assert standing_answer(story.read("k"), intent) == story.answers["k"]
    with pytest.raises(Conflict):
        standing_answer(story.read("k"), Intent("invoke_tool", "notes.find", [arguments], True, idempotency_key="k"))
