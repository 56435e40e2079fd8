"""The execute flow: one answer per (caller, task, execution, attempt), in the shape the kernel accepts.

Order: read → claim → run the executor → check its output → evidence to S3 → record → answer. A request that can be
refused without a run is refused before the claim. Runtime specification 2.2, 2.5, 3, 6.1.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from piecework.durable.artifacts import ARTIFACT_LIMIT, EvidenceStore, artifact_token, keep
from piecework.durable.pieces import Answer, Claim, Origin, Pieces, Result, piece_key
from piecework.durable.steps import ListedSteps, ListedStepTable
from piecework.errors import Internal, PieceworkError, Unprocessable
from piecework.extend.executors import Artifact, Executor, Log, Outcome, Refused, Run, Stage, Task
from piecework.extend.faults import fault_of
from piecework.extend.manifest import Bundle
from piecework.extend.outgoing import Unsendable, settled, written
from piecework.jsons import MAX_DEPTH_READ, Json, canonical, loads
from piecework.jsons.fingerprints import Fingerprint, fingerprint
from piecework.runtime.execute.evidence import TOTAL_BYTES, admit, admit_refs
from piecework.runtime.execute.messages import Contract, ExecuteRequest, read_contract, read_request
from piecework.schemas import Checker, SchemaRejected, compile_schema, minimal_ok
from piecework.values import dataclass, field

IDS: Final = ("task_id", "execution_id", "attempt_id")  # the ids in an outcome line
OUTPUT_LEVELS: Final = MAX_DEPTH_READ - 1  # the answer around it is one level more
OUTPUT_BYTES: Final = 65_536  # of canonical JSON; the kernel refuses a larger candidate
MOST_READ: Final = 4 * OUTPUT_BYTES  # of the executor's own text; the form that all kernels share may be shorter
TOO_LARGE: Final = f"the output is over {OUTPUT_BYTES} bytes"
FAILS_MINIMAL: Final = "the output fails the kernel's own check of type, required or properties"
ANSWER: Final = b'{"candidate_output":%s,"evidence_inline":[%s],"evidence_refs":[%s]}'  # canonical, as its parts are
MIME_PATTERN: Final = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+(?:; ?[a-z0-9-]+=[a-zA-Z0-9.+-]+)?")
MAKER_CHARACTERS: Final = 200  # of an executor's and its model's name
UNKNOWN_MIME: Final = "application/octet-stream"
TOKEN_COUNTS: Final = {"InputTokens": "input_tokens", "OutputTokens": "output_tokens"}  # metrics from run.note
STAGES: Final[Mapping[str, Stage]] = {
    "verify": "verify",
    "finalize": "finalize",
    "decide": "decide",
    "diverge_mode": "diverge",
}

# Members of the request by level (specification 2.2 to 2.4). Other members are ignored, so the fingerprint does not
# cover them either; free-form values (inputs, output_schema, …) are taken whole.
WHOLE: Final[Mapping[str, Any]] = {}
KNOWN: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("task_id", "execution_id", "task_type", "inputs", "profile", "stage", "attempt_id"), WHOLE),
    "seed_bundle": dict.fromkeys(("seed_type", "hits", "constraints"), WHOLE),
    "task_contract": {
        **dict.fromkeys(("protocol_version", "task_id", "task_type", "inputs", "output_schema"), WHOLE),
        **dict.fromkeys(("task_mode", "expiry_ms"), WHOLE),
        "budget": dict.fromkeys(
            (
                *("time_ms", "max_steps", "cost_units", "mode", "explore_cost_units", "verify_cost_units"),
                *("finalize_cost_units", "reuse_verify_time_ms", "reuse_verify_cost_units", "reuse_max_attempts"),
            ),
            WHOLE,
        ),
        "assignment": dict.fromkeys(("mode", "claim", "explore", "verify", "finalize"), WHOLE),
        "acceptance": dict.fromkeys(
            ("quorum_threshold", "verifier_policy", "vote", "settlement", "da_quorum_threshold"), WHOLE
        ),
        "evidence_policy": dict.fromkeys(
            (
                *("max_inline_evidence_bytes", "max_inline_media_bytes", "inline_mime_allowlist"),
                *("max_snippet_bytes", "max_snippet_tokens"),
            ),
            WHOLE,
        ),
    },
}


class Judged(NamedTuple):
    """An output as readers get it (tuples become lists), why it is refused, if it is, and else its canonical bytes."""

    output: Json
    problem: str | None
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Order:
    """One request, read and checked, with the executor that serves it."""

    request: ExecuteRequest
    contract: Contract
    schema: Checker
    executor: Executor
    caller: str
    fingerprint: Fingerprint
    last: dict[bytes, Judged] = field(default_factory=dict, repr=False, compare=False)  # by canonical form; one entry

    @property
    def key(self) -> str:
        request = self.request
        return piece_key("runtime", self.caller, request.task_id, request.execution_id, request.attempt_id)

    @property
    def origin(self) -> Origin:
        request = self.request
        ids = (request.task_id, request.execution_id, request.attempt_id)
        return Origin(self.caller, self.executor.name, ids)

    def problem(self, output: Json) -> str | None:
        """Why the kernel or the caller's schema would refuse this output; None when both take it."""
        return self.judge(output).problem

    def judge(self, output: Json) -> Judged:
        """The output as readers get it, and its problem; one that the executor had checked is not checked again."""
        try:
            raw = written(output, OUTPUT_LEVELS)
            judged = self.last.get(raw)
            if len(raw) > MOST_READ:
                judged = Judged(None, TOO_LARGE)
            if judged is None:
                judged = self._judged(*settled(raw, OUTPUT_LEVELS))
                self.last.clear()
                self.last[raw] = judged
        except Unsendable as reason:
            return Judged(None, str(reason))
        return judged

    def _judged(self, output: Json, raw: bytes) -> Judged:
        if len(raw) > OUTPUT_BYTES:
            return Judged(None, TOO_LARGE)
        return Judged(output, self._problem(output), raw)

    def _problem(self, output: Json) -> str | None:
        if output is None:
            return "the output is null"
        try:
            if minimal_ok(self.contract.output_schema, output) and self.schema.is_valid(output):
                return None
            return self.schema.explain(output) or FAILS_MINIMAL
        except SchemaRejected as too_costly:
            return too_costly.message


class Executed(NamedTuple):
    """The answer, whether it is a permanent failure, the facts of its outcome line, and the maker of a fresh answer."""

    body: bytes
    ok: bool
    facts: Mapping[str, Any]
    counts: Mapping[str, int]
    made_by: str = ""


class StoredFailure(PieceworkError):
    """A permanent failure as it is recorded, by this call or an earlier one; carries that failure's code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # the recorded failure's own code stands for the class's


class Execute:
    """Runs tasks for the runtime door."""

    def __init__(
        self,
        *,
        bundle: Bundle,
        pieces: Pieces,
        steps: ListedStepTable,
        evidence: EvidenceStore,
        producer: str,
        clock: Callable[[], int],
        expires_at: Callable[[], int],
        log: Log,
        token: Callable[[], str] = artifact_token,
        admit: Callable[[str], None] = lambda executor: None,
    ) -> None:
        """`admit` raises Paused while no new work may begin for the executor of that name."""
        self._bundle = bundle
        self._pieces = pieces
        self._steps = steps
        self._evidence = evidence
        self._producer = producer
        self._clock = clock
        self._expires_at = expires_at
        self._log = log
        self._token = token
        self._admit = admit

    def execute(
        self,
        body: dict[str, Json],
        *,
        caller: str,
        until_ms: int,
        public_url: str,
        trace_id: str | None = None,
        run_until_ms: int | None = None,
    ) -> Executed:
        """Answer one ExecuteRequest before `until_ms` (epoch ms).

        A run may go on until `run_until_ms`, past its own request: its answer is recorded for the resend.

        Raises:
            Unprocessable: a member is missing, mistyped, or names an unknown profile.
            SchemaRejected: the output schema cannot be used.
            KeyConflict: the ids belong to another payload.
            PayloadForgotten: an operator had the piece forgotten.
            InProgress: another runner has the piece and did not finish in time.
            Paused: the piece is new, and its executor or the door takes no new work.
            Retryable, UpstreamFailed: the executor could not answer now.
            StoredFailure: the piece's recorded answer is a permanent failure.
        """
        try:
            return self._execute(self._read(body, caller), until_ms, public_url, trace_id, run_until_ms or until_ms)
        except PieceworkError as error:
            error.with_facts({**ids_of(body), **error.facts}, error.counts)
            raise

    def _execute(
        self, order: Order, until_ms: int, public_url: str, trace_id: str | None, run_until_ms: int
    ) -> Executed:
        runs: list[Run] = []

        def work(claim: Claim) -> Result:
            deadline_ms = min(run_until_ms, self._clock() + order.executor.max_duration_ms)
            run = Run(
                remaining_ms=lambda: deadline_ms - self._clock(),
                steps=ListedSteps(self._steps, claim, self._expires_at),
                log=self._log,
                trace_id=trace_id,
                right=claim.right,
            )
            runs.append(run)
            return self._work(order, run, deadline_ms, public_url)

        answer = self._pieces.perform(
            order.key,
            order.fingerprint,
            work,
            until_ms=until_ms,
            needs_ms=order.executor.expected_ms,
            origin=order.origin,
            admit=lambda: self._admit(order.executor.name),
        )
        facts, counts = _facts(order, answer, runs), _counts(answer, runs)
        if not answer.ok:
            failure = loads(answer.body)
            raise StoredFailure(failure["code"], failure["message"]).with_facts(facts, counts)
        made_by = name_of_maker(order, runs[-1]) if runs and not answer.replayed else ""
        return Executed(answer.body, answer.ok, facts, counts, made_by)

    def _read(self, body: dict[str, Json], caller: str) -> Order:
        request = read_request(body)
        contract = read_contract(request.task_contract)
        executor = self._bundle.serving(request.task_type)
        if request.profile not in self._bundle.profiles:
            raise Unprocessable("profile: not one of those in /capabilities")
        schema = compile_schema(contract.output_schema)
        return Order(request, contract, schema, executor, caller, fingerprint_of(body))

    def _work(self, order: Order, run: Run, deadline_ms: int, public_url: str) -> Result:
        try:
            outcome = order.executor(task_of(order, deadline_ms), run)
        except Refused as refusal:
            return _failure("refused", refusal.message)
        except PieceworkError:
            raise
        except Exception as bug:  # an executor's bug; its text may quote the task
            self._log.warning("executor_failed", executor=order.executor.name, **fault_of(bug))
            raise Internal("the executor failed; the runtime's log has the reason") from bug
        run.right.check()  # before storing anything
        judged = order.judge(outcome.output)
        if judged.problem is not None:
            return _failure("no_valid_output", f"no output that fits output_schema: {judged.problem}")
        return Result(self._response(order, run, outcome, judged.raw, public_url))

    def _response(self, order: Order, run: Run, outcome: Outcome, output: bytes, public_url: str) -> bytes:
        artifacts = [*run.collected_artifacts, *outcome.deliverables]
        made_by = f"{self._producer}/{name_of_maker(order, run)}"
        named = [ref for artifact in artifacts if (ref := self._ref(artifact, public_url, made_by)) is not None]
        refs = b",".join(admit_refs(named, order.contract.verify_cost_units))
        room = TOTAL_BYTES - len(b"[%s]" % refs)
        inline = b",".join(admit([*run.collected_evidence, *outcome.evidence], order.contract.evidence_policy, room))
        return ANSWER % (output, inline, refs)

    def _ref(self, artifact: Artifact, public_url: str, made_by: str) -> dict[str, Json] | None:
        if len(artifact.data) > ARTIFACT_LIMIT:
            self._log.warning("artifact_dropped", size_bytes=len(artifact.data), limit=ARTIFACT_LIMIT)
            return None
        mime = artifact.mime if MIME_PATTERN.fullmatch(artifact.mime) else UNKNOWN_MIME
        kept = keep(self._evidence, artifact.data, mime, self._token())
        return {
            "uri": public_url + kept.path,
            "digest": f"sha256:{kept.digest}",
            "size_bytes": kept.size_bytes,
            "mime": mime,
            "created_at": self._clock(),
            "producer": made_by,
        }


def task_of(order: Order, deadline_ms: int) -> Task:
    """The request as an executor gets it, with its end at `deadline_ms` (epoch ms)."""
    request = order.request
    prompt = request.inputs.get("prompt") if isinstance(request.inputs, dict) else None
    raw_stage = request.stage.lower()
    return Task(
        door="runtime",
        caller=order.caller,
        task_type=request.task_type,
        prompt=prompt if isinstance(prompt, str) else None,
        inputs=request.inputs,
        output_schema=order.contract.output_schema,
        task_id=request.task_id,
        execution_id=request.execution_id,
        attempt_id=request.attempt_id,
        deadline_ms=deadline_ms,
        contract=request.task_contract,
        stage=STAGES.get(raw_stage, "explore"),
        raw_stage=raw_stage,
        profile=request.profile,
        settings=order.executor.settings_of(request.profile),
        seed=request.seed_bundle,
        check=order.problem,
    )


def name_of_maker(order: Order, run: Run) -> str:
    """The executor that ran, followed by a slash and the model if the executor notes one."""
    model = run.facts.get("model", "")
    return f"{order.executor.name}/{model}"[:MAKER_CHARACTERS] if model else order.executor.name


def fingerprint_of(body: dict[str, Json]) -> Fingerprint:
    """The fingerprint of a request; unknown members, order and spacing do not change it (3.3)."""
    return fingerprint(_known(body, KNOWN))


def _known(value: Json, known: Mapping[str, Any]) -> Json:
    """The value without its unknown members, and without null members that mean the same as absent ones."""
    if not known or not isinstance(value, dict):
        return value
    kept = {}
    for name, inner in known.items():
        member = value.get(name)
        if member is not None:
            kept[name] = _known(member, inner) if inner else member
    return kept


def _failure(code: str, message: str) -> Result:
    return Result(canonical({"code": code, "message": message}), ok=False)


def ids_of(body: Mapping[str, Json]) -> dict[str, Json]:
    """The ids of a body for the outcome line, also of a body that is otherwise wrong."""
    return {name: value for name in IDS if isinstance(value := body.get(name), str)}


def _facts(order: Order, answer: Answer, runs: list[Run]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for run in runs:
        facts |= run.facts  # first, so that an executor's notes never replace the door's own facts
    facts |= {"executor": order.executor.name if runs else None}  # another executor may have made the recorded answer
    ids = {name: getattr(order.request, name) for name in IDS}
    facts |= {"caller": order.caller, "stage": order.request.stage[:32], **ids}
    return facts | {"replayed": answer.replayed, "waited": answer.waited, "took_over": answer.took_over}


def _counts(answer: Answer, runs: list[Run]) -> dict[str, int]:
    counts = {"Replays": int(answer.replayed), "Waits": int(answer.waited), "TakeOvers": int(answer.took_over)}
    for run in runs:
        for name, fact in TOKEN_COUNTS.items():
            noted = run.facts.get(fact, 0)
            counts[name] = counts.get(name, 0) + (noted if isinstance(noted, int) else 0)
    return {name: count for name, count in counts.items() if count}
