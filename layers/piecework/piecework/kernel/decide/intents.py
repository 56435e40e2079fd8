"""What agents ask for: tool calls, waits, ends; and repeats of them (specification sections 1.1, 2.9, 4.3)."""

from typing import Final, TypeVar

from piecework.jsons import Json
from piecework.kernel.clocks import rfc3339
from piecework.kernel.decide import checks
from piecework.kernel.errors import Conflict
from piecework.kernel.model import metrics
from piecework.kernel.model.change_builder import ChangeBuilder, Decision, Entry
from piecework.kernel.model.changes import IdempotencyRecord, StepRecord
from piecework.kernel.model.commands import COMPLETE, FAIL, INVOKE_TOOL, WAIT, Intent, TakeIntent
from piecework.kernel.model.evolve import oldest_signal
from piecework.kernel.model.kept_answers import Kept, mark_of
from piecework.kernel.model.notices import What
from piecework.kernel.model.payloads import (
    ExecutionBlocked,
    ExecutionCompleted,
    ExecutionFailed,
    GivenMembers,
    IntentAccepted,
    IntentDenied,
    IntentDetails,
    StepApprovalRequired,
    StepCreated,
    StepDispatched,
    resumed_by_signal,
)
from piecework.kernel.model.ports.executions import Read
from piecework.kernel.model.questions import LISTED, REASON, Question, beginning
from piecework.kernel.model.state import Execution
from piecework.kernel.policy.verdicts import Decision as Policy
from piecework.kernel.policy.verdicts import OnTimeout, Verdict, Wait
from piecework.kernel.settings import LONGEST_KEPT_MS, REMOTE_ATTEMPTS
from piecework.values import replace

G = TypeVar("G", bound=GivenMembers)

Answer = dict[str, Json]
ACCEPTED: Final[Answer] = {"accepted": True}


def standing_answer(read: Read, intent: Intent) -> IdempotencyRecord | None:
    """The answer that a repeat gets, or None when the key is unused or free again.

    Raises:
        Conflict: the key stands for another intent.
    """
    answered, execution = read.answered, checks.known(read)
    if answered is None or _is_free(answered, execution, read, intent):
        return None
    if not intent.is_told_by(answered.fingerprint):
        raise Conflict("the idempotency key was used for another intent")
    return answered


def must_look_up_step(read: Read) -> bool:
    """Whether the key's step has ended, so that only its record tells how."""
    answered, execution = read.answered, read.execution
    return bool(answered and answered.step_id and execution and answered.step_id not in execution.steps)


def needs_verdict(read: Read, intent: Intent) -> bool:
    """Check an intent that is not a repeat; whether the policy is to be asked about it.

    Raises:
        Conflict: the execution takes no intents, or no more steps.
        Invalid: the intent lacks what its type needs.
    """
    if standing_answer(read, intent):
        return False
    execution = checks.known(read)
    checks.takes_intents(execution)
    checks.fields(intent)
    if intent.type == INVOKE_TOOL:
        checks.takes_another_step(execution)
    return intent.type == INVOKE_TOOL


def act(builder: ChangeBuilder, read: Read, command: TakeIntent) -> Decision:
    """Answer an intent; the caller has checked its session, and brings the verdict that `needs_verdict` asks for."""
    intent = command.intent
    standing = standing_answer(read, intent)
    if standing:
        return _repeat(builder, read, standing)
    asks_policy = needs_verdict(read, intent)
    builder.keep_session()
    for kind, payload in command.reports:
        builder.append(kind, payload)
    if asks_policy:
        answer, step_id = _invoke(builder, read, command)
    else:
        answer, step_id = PLAIN[intent.type](builder, intent), ""
        builder.count(metrics.intents(intent.type, "accepted"))
    if intent.idempotency_key:
        key, mark = intent.idempotency_key, intent.fingerprint
        builder.answered = IdempotencyRecord(key, mark, answer, step_id, command.session_id)
        builder.freed_key = key if read.answered else ""
    return Decision(builder.change(), answer)


def _is_free(answered: IdempotencyRecord, execution: Execution, read: Read, intent: Intent) -> bool:
    """A key whose step was cancelled is free; so is a `wait` of an earlier session, whose block is gone."""
    if answered.step_id:
        has_outcome = read.step is not None and read.step.outcome is not None
        return answered.step_id not in execution.steps and not has_outcome
    session_id = execution.session.id if execution.session else ""
    return intent.type == WAIT and intent.is_told_by(answered.fingerprint) and answered.session_id != session_id


def _repeat(builder: ChangeBuilder, read: Read, answered: IdempotencyRecord) -> Decision:
    """The stored answer; the outcome of a step that has ended is pushed again, for a handler that started over."""
    if builder.state.status.is_terminal:
        return Decision(None, answered.answer)
    outcome = read.step.outcome if read.step else None
    session = builder.state.session
    if outcome is None and session and session.has_shown_life:
        return Decision(None, answered.answer)
    builder.keep_session()
    if outcome:
        if answered.answer.get("pending_approval"):
            builder.push("approval.resolved", answered.step_id, approved=not outcome.is_denied)
        builder.push("tool.result", answered.step_id)
    return Decision(builder.change(), answered.answer)


def _invoke(builder: ChangeBuilder, read: Read, command: TakeIntent) -> tuple[Answer, str]:
    verdict = command.verdict
    if verdict is None:
        raise RuntimeError("a tool call is decided with the policy's verdict")
    for row, amount in metrics.policy_time(command.policy_seconds).items():
        builder.counts[row] = amount
    if verdict.decision is Policy.DENY or command.over_limit:
        return _deny(builder, command, verdict), ""
    kept = _kept_answer(builder, read, command.intent) if verdict.decision is Policy.REQUIRE_APPROVAL else None
    if kept and not kept.approved:
        return _deny_again(builder, command.intent, verdict, kept), ""
    step_id = builder.fresh()
    intent = command.intent
    arguments, has_arguments = intent.arguments, intent.has_arguments
    asks = verdict.decision is Policy.REQUIRE_APPROVAL and kept is None
    question = _question(builder, intent, verdict) if asks else None
    record = StepRecord(step_id, intent.tool_id, intent.remote, arguments, has_arguments, asked=asks, question=question)
    builder.new_steps.append(replace(record, is_private=verdict.is_private))
    if question:
        return _ask_person(builder, intent, verdict, question, step_id), step_id
    if kept:
        return _run_let_through(builder, command, verdict, kept, step_id), step_id
    return _run(builder, command, verdict, step_id), step_id


def _deny(builder: ChangeBuilder, command: TakeIntent, verdict: Verdict) -> Answer:
    intent, reason = command.intent, verdict.reason
    if command.over_limit and verdict.rate_limit:
        reason = verdict.rate_limit.refusal(verdict.rule_id)
    denied = IntentDenied(intent_type=intent.type, tool_id=intent.tool_id, reason=reason, rule_id=verdict.rule_id)
    builder.append("intent.denied", _with_given(denied, intent, verdict))
    builder.count(metrics.intents(intent.type, "rate_limited" if command.over_limit else "denied"))
    return {"accepted": False, "error": reason or f"denied by rule {verdict.rule_id}", "rule_id": verdict.rule_id}


def _run(builder: ChangeBuilder, command: TakeIntent, verdict: Verdict, step_id: str) -> Answer:
    intent = command.intent
    until = builder.now_ms + (verdict.timeout_ms or builder.settings.step_timeout_ms)
    accepted = _accept(builder, intent, _with_given(IntentDetails(tool_id=intent.tool_id), intent, verdict))
    attempts = REMOTE_ATTEMPTS if intent.remote else 1
    entries: list[Entry] = [("step.created", _created(intent, verdict, attempts, until), step_id)]
    if intent.remote:
        entries.append(("step.dispatched", _job(builder, until), step_id))
    builder.batch(entries, chain=accepted)
    if intent.remote:
        builder.dispatch(step_id, command.linked)
    builder.count(metrics.intents(intent.type, "accepted"))
    return ACCEPTED | {"step_id": step_id}


def _kept_answer(builder: ChangeBuilder, read: Read, intent: Intent) -> Kept | None:
    """What a person said about this call when no agent was there to hear it; it is used up."""
    mark = mark_of(intent.tool_id, intent.remote, intent.arguments)
    kept = builder.approvals.for_call(mark, intent.idempotency_key, is_key_new=read.answered is None)
    if kept:
        builder.approvals = builder.approvals.used(kept)
    return kept


def _run_let_through(builder: ChangeBuilder, command: TakeIntent, verdict: Verdict, kept: Kept, step_id: str) -> Answer:
    """A person has let the call through already, so it runs as one that the policy allows, but once."""
    intent, until = command.intent, builder.now_ms + builder.settings.step_timeout_ms
    accepted = _accept(builder, intent, _with_given(IntentDetails(tool_id=intent.tool_id), intent, verdict))
    created = _created(intent, verdict, 1, until)
    created["remote"], created["answered_as"] = intent.remote, kept.step_id
    entries: list[Entry] = [("step.created", created, step_id)]
    if intent.remote:
        entries.append(("step.dispatched", _job(builder, until), step_id))
    builder.batch(entries, chain=accepted)
    if intent.remote:
        builder.approvals = builder.approvals.let_through(step_id, kept, intent.idempotency_key)
        builder.dispatch(step_id, command.linked)
    builder.count(metrics.intents(intent.type, "accepted"))
    return ACCEPTED | {"step_id": step_id}


def _deny_again(builder: ChangeBuilder, intent: Intent, verdict: Verdict, kept: Kept) -> Answer:
    denied = IntentDenied(intent_type=intent.type, tool_id=intent.tool_id, reason=kept.reason, rule_id=verdict.rule_id)
    denied["answered_as"] = kept.step_id
    builder.append("intent.denied", _with_given(denied, intent, verdict))
    builder.count(metrics.intents(intent.type, "denied"))
    return {"accepted": False, "error": kept.reason, "rule_id": verdict.rule_id}


def _job(builder: ChangeBuilder, until_ms: int) -> StepDispatched:
    return {"runner_id": "", "job_id": builder.fresh(), "deadline": rfc3339(until_ms)}


def _ask_person(builder: ChangeBuilder, intent: Intent, verdict: Verdict, question: Question, step_id: str) -> Answer:
    until = builder.now_ms + builder.settings.step_timeout_ms
    tool_id, arguments = intent.tool_id, intent.arguments
    blocked: ExecutionBlocked = {"reason": "approval", "ref": step_id, "tool_id": tool_id, "arguments": arguments}
    if intent.remote:
        blocked["remote"] = True
    if question.until_ms is not None:
        blocked["expires_at"] = rfc3339(question.until_ms)
        blocked["on_timeout"] = "fail" if question.on_timeout == OnTimeout.FAIL else "deny"
    if question.notify:
        blocked["notify"] = question.notify
    asked = StepApprovalRequired(tool_id=tool_id, arguments=arguments, remote=intent.remote, reason=verdict.reason)
    if verdict.is_private:
        blocked["private"] = asked["private"] = True
    builder.batch(
        [
            ("step.created", _created(intent, verdict, 1, until), step_id),
            ("step.approval_required", asked, step_id),
            ("execution.blocked", blocked, ""),
        ]
    )
    builder.notice(What.NEEDED, builder.state.blocked)
    mark = mark_of(intent.tool_id, intent.remote, intent.arguments)
    builder.approvals = builder.approvals.asked(step_id, mark, intent.idempotency_key)
    builder.count(metrics.intents(intent.type, "pending_approval"))
    return ACCEPTED | {"step_id": step_id, "pending_approval": True}


def _question(builder: ChangeBuilder, intent: Intent, verdict: Verdict) -> Question:
    """What a person is told of a call."""
    text, length = beginning(intent.arguments, LISTED) if intent.has_arguments else ("", 0)
    return Question(
        rule_id=verdict.rule_id,
        reason=verdict.reason[:REASON],
        since_ms=builder.now_ms,
        arguments="" if verdict.is_private else text,
        length=length,
        is_private=verdict.is_private,
        until_ms=_waits_until(builder, verdict.wait) if verdict.wait else None,
        on_timeout=verdict.wait.on_timeout.value if verdict.wait else "",
        notify=verdict.notify,
        by=builder.by,
    )


def _waits_until(builder: ChangeBuilder, wait: Wait) -> int:
    """When an answer comes too late; no execution is open for longer than what it needs is kept."""
    settings, begun = builder.settings, builder.state.created_at_ms
    latest = begun + LONGEST_KEPT_MS - settings.execution_timeout_ms - settings.retention_ms
    return min(builder.now_ms + wait.timeout_ms, max(latest, builder.now_ms))


def _wait(builder: ChangeBuilder, intent: Intent) -> Answer:
    accepted = _accept(builder, intent, {"signal_type": intent.signal_type})
    stored = oldest_signal(builder.state, intent.signal_type)
    if stored is None:
        builder.append("execution.blocked", ExecutionBlocked(reason="signal", ref=intent.signal_type), chain=accepted)
        return ACCEPTED
    builder.append("execution.resumed", resumed_by_signal(intent.signal_type), chain=accepted)
    builder.push("signal.received", str(stored.sequence))
    return ACCEPTED


def _complete(builder: ChangeBuilder, intent: Intent) -> Answer:
    _all_ended(builder.state)
    given = intent.has_output or intent.output is not None
    accepted = _accept(builder, intent, {"output": intent.output} if given else {})
    builder.append("execution.completed", ExecutionCompleted(output=intent.output), chain=accepted)
    builder.output = intent.output
    builder.keep_session_after_end()
    return ACCEPTED


def _fail(builder: ChangeBuilder, intent: Intent) -> Answer:
    _all_ended(builder.state)
    accepted = _accept(builder, intent, {"error": intent.error})
    builder.append("execution.failed", ExecutionFailed(error=intent.error), chain=accepted)
    builder.keep_session_after_end()
    return ACCEPTED


def _all_ended(execution: Execution) -> None:
    if execution.steps:
        raise Conflict(f"{len(execution.steps)} steps are still active")


def _accept(builder: ChangeBuilder, intent: Intent, details: IntentDetails) -> str:
    accepted = IntentAccepted(intent_type=intent.type)
    if details:
        accepted["details"] = details
    return builder.append("intent.accepted", accepted).id


def _with_given(told: G, intent: Intent, verdict: Verdict) -> G:
    if intent.has_arguments:
        told["arguments"] = intent.arguments
        if verdict.is_private:
            told["private"] = True
    if intent.idempotency_key:
        told["idempotency_key"] = intent.idempotency_key
    return told


def _created(intent: Intent, verdict: Verdict, attempts: int, until_ms: int) -> StepCreated:
    created: StepCreated = {
        "tool_id": intent.tool_id,
        "tool_version": 0,
        "arguments": intent.arguments,
        "max_attempts": attempts,
        "attempt": 1,
        "deadline": rfc3339(until_ms),
    }
    if verdict.is_private:
        created["private"] = True
    return created


PLAIN: Final = {WAIT: _wait, COMPLETE: _complete, FAIL: _fail}
