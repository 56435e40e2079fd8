"""Answers of people that are kept for the next run."""

from piecework.kernel.model.commands import AgentLost, Assign
from piecework.kernel.model.commands import Intent as Wish
from piecework.kernel.settings import KernelSettings
from tests.support.kernel.story import ASK, Story

SAYS = "step.approve"


def asked_and_answered(story: Story, number: int) -> bool:
    """An agent asks, is lost, is told yes, and starts over; whether its call goes through."""
    call = Wish("invoke_tool", "pay", {"number": number}, True)
    step = story.act(call, ASK)["step_id"]
    story.do(AgentLost(story.session))
    story.signal(SAYS, {"step_id": step, "approved": True})
    story.do(Assign("another"))
    return "pending_approval" not in story.act(call, ASK)


def test_answers_about_very_many_different_calls_are_not_kept():
    story = Story(settings=KernelSettings()).assigned()
    for number in range(501):
        step = story.act(Wish("invoke_tool", "pay", {"number": number}, True), ASK)["step_id"]
        story.signal(SAYS, {"step_id": step, "approved": False})

    assert not asked_and_answered(story, 501)


def test_an_answer_is_forgotten_with_the_end_of_its_execution():
    story = Story().assigned()
    step = story.invoke("pay", ASK)
    story.do(AgentLost(story.session))
    story.signal(SAYS, {"step_id": step, "approved": True})
    story.do(Assign("another"))
    assert story.state.approvals.kept != ()

    story.act(Wish("complete"))

    assert (story.state.approvals.kept, story.state.approvals.calls) == ((), {})


def test_a_key_and_a_reason_of_any_length_do_not_make_the_checkpoint_long():
    story = Story().assigned()
    for number in range(110):
        call = Wish("invoke_tool", "pay", {"number": number}, True, idempotency_key=f"{number}" + "k" * 50_000)
        step = story.act(call, ASK)["step_id"]
        story.do(AgentLost(story.session))
        story.signal(SAYS, {"step_id": step, "approved": False, "reason": "é" * 50_000})
        story.do(Assign("another"))

    assert len(str(story.state)) < 100_000
    assert story.act(Wish("invoke_tool", "pay", {"number": 109}, True), ASK)["error"] == "é" * 500
    assert "pending_approval" in story.act(Wish("invoke_tool", "pay", {"number": 0}, True), ASK)
