"""Signals from outside, and people's answers among them (specification sections 1.4, 1.5)."""

from piecework.edge.roles import needed
from piecework.kernel.clocks import rfc3339
from piecework.kernel.decide import answers, checks, denials
from piecework.kernel.errors import Conflict, Forbidden
from piecework.kernel.model.change_builder import ChangeBuilder, Decision
from piecework.kernel.model.changes import Decided
from piecework.kernel.model.commands import Signal
from piecework.kernel.model.events import Event
from piecework.kernel.model.notices import What
from piecework.kernel.model.payloads import (
    ExecutionResumed,
    SignalReceived,
    StepDispatched,
    resumed_by_signal,
)
from piecework.kernel.model.ports.agents import Consumer
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.model.questions import REASON
from piecework.kernel.model.state import Step
from piecework.kernel.needs import APPROVERS, CLIENTS
from piecework.kernel.settings import MAX_STORED_SIGNALS


def signal(builder: ChangeBuilder, read: Read, command: Signal) -> Decision:
    """Resume what waits for exactly this type; keep any other for a later wait.

    Raises:
        Forbidden: the caller may not send such a signal, or works as the very agent that asks. Only here it is known
            whether it answers about a step.
    """
    state = builder.state
    is_answer = answers.is_answer(state, command)
    if not command.roles & (APPROVERS if is_answer else CLIENTS):
        raise Forbidden(needed(APPROVERS if is_answer else CLIENTS))
    if is_answer:
        answers.check_others(state, command, builder.by)
        return _answer(builder, read, command)
    checks.not_ended(state)
    resumes = state.waits_for("signal", command.type)
    if not resumes and len(state.signals) >= MAX_STORED_SIGNALS:
        raise Conflict(f"an execution stores at most {MAX_STORED_SIGNALS} signals")
    received = _received(builder, command)
    if resumes:
        builder.append("execution.resumed", resumed_by_signal(command.type), cause=received.id, chain=received.id)
    builder.push("signal.received", str(received.sequence))
    return Decision(builder.change(), {})


def step_let_through(read: Read, command: Signal) -> Step | None:
    """The step that a signal lets through."""
    execution = read.execution
    if execution is None or execution.status.is_terminal or not answers.is_answer(execution, command):
        return None
    said = answers.said(execution, command)
    if not said.approved or not checks.awaits_approval(execution, said.step_id):
        return None
    return execution.steps[said.step_id]


def _received(builder: ChangeBuilder, command: Signal) -> Event:
    payload = SignalReceived(signal_type=command.type, payload=command.payload)
    received = builder.append("signal.received", payload)
    builder.signals[received.sequence] = payload
    return received


def _answer(builder: ChangeBuilder, read: Read, command: Signal) -> Decision:
    said = answers.said(builder.state, command)
    if not checks.awaits_approval(builder.state, said.step_id):
        return Decision(None, answers.late(builder.state, read, builder.by, said))
    step = builder.state.steps[said.step_id]
    builder.notice(What.ANSWERED, builder.state.blocked)
    received = _received(builder, command)
    if said.approved:
        _grant(builder, step, command, received)
    else:
        denials.deny(builder, step, said.reason, chain=received.id)
    builder.decisions[step.id] = Decided(
        said.approved, builder.by, builder.now_ms, reason="" if said.reason == answers.DENIED else said.reason[:REASON]
    )
    builder.push("approval.resolved", step.id, approved=said.approved)
    builder.push("signal.received", str(received.sequence))
    builder.keep_session(shows_life=False)
    return Decision(builder.change(), {})


def _grant(builder: ChangeBuilder, step: Step, command: Signal, received: Event) -> None:
    until = builder.now_ms + builder.settings.step_timeout_ms
    job_id = builder.fresh() if step.remote else ""
    dispatched = StepDispatched(runner_id="", job_id=job_id, deadline=rfc3339(until))
    builder.append("step.dispatched", dispatched, step.id, cause=received.id, chain=received.id)
    builder.append(
        "execution.resumed", ExecutionResumed(reason="approval granted"), cause=received.id, chain=received.id
    )
    if step.remote:
        builder.dispatch(step.id, command.linked)
    elif builder.state.session is not None:
        _tell_agent(builder, step, command.consumer)


def _tell_agent(builder: ChangeBuilder, step: Step, consumer: Consumer | None) -> None:
    """A local step is worked on as soon as its agent is told; while no stream is open, only a successor can be."""
    if consumer is None or consumer.is_open:
        builder.approvals = builder.approvals.worked_on(step.id)
    else:
        builder.approvals = builder.approvals.left_for(step.id, consumer.generation)
