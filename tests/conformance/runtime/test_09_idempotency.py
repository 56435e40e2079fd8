"""Runtime specification, cases 24-32: one run and one answer per key, through resends, races and crashes."""

import copy
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.machine import RunningGateway, wait_until
from tests.support.runtime.requests import a_nonce_request, code_of, error_of, execute, reordered

EXECUTE = "runtime.execute.app.handler"
CRASH_SECONDS = 60  # from the crash to the resend's answer; the lease alone takes 15
RACERS = 20


@pytest.fixture(scope="module")
def runtime(request, served):
    """One of two that the races use too: environments are started once."""
    return served or request.getfixturevalue("two_gateways")[0]


@dataclass
class Recovery:
    """A request whose runner is killed in its work, and the same request again."""

    runtime: RunningGateway
    request: dict[str, Any]
    killed: int = 0
    seconds: float = 0.0

    def __post_init__(self):
        self._thread = ThreadPoolExecutor(2)
        self.answers = self._thread.submit(self._crash)

    def _crash(self):
        lost = self._thread.submit(execute, self.runtime, self.request)
        wait_until(lambda: self.runtime.runs(self.request["execution_id"]) == 1)
        self.killed = self.runtime.kill(EXECUTE)
        begun = time.monotonic()
        answers = lost.result(), execute(self.runtime, self.request)
        self.seconds = time.monotonic() - begun
        return answers

    def close(self):
        self.runtime.close()
        self._thread.shutdown()


@pytest.fixture(scope="module", autouse=True)
def recovery(request, served):
    """Begun before the other cases, because the dead runner's lease takes 15 s to lapse."""
    if served:
        yield None
        return
    recovery = Recovery(request.getfixturevalue("gateway")(fresh=True), a_nonce_request(1.5))
    yield recovery
    recovery.close()


def identical(answers):
    """The one body of answers that must all be good and alike."""
    assert [answer.status_code for answer in answers] == [200] * len(answers), [answer.text for answer in answers]
    [body] = {answer.content for answer in answers}
    return json.loads(body)


def test_duplicate_after_completion(runtime, counted):
    request = counted.request()
    spaced = json.dumps(reordered(request), indent=2, ensure_ascii=False)

    first = execute(runtime, request)
    again = execute(runtime, request)
    other_order = runtime.http.post("/execute", content=spaced, headers={"content-type": "application/json"})

    assert identical([first, again, other_order]) == first.json()
    counted.are(request, 1)


def test_duplicate_after_completion_is_marked_as_a_replay(runtime, counted):
    request = counted.request()

    first, again = execute(runtime, request), execute(runtime, request)

    assert "x-piecework-replayed" not in first.headers
    assert again.headers["x-piecework-replayed"] == "true"


@pytest.mark.inside("tells the executor what to do")
def test_duplicate_while_running(runtime):
    request = a_nonce_request(2)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(execute, runtime, request)
        wait_until(lambda: runtime.runs(request["execution_id"]) == 1)
        begun = time.monotonic()
        second = threads.submit(execute, runtime, request).result()
        waited = time.monotonic() - begun

    identical([first.result(), second])
    assert waited > 1
    assert runtime.runs(request["execution_id"]) == 1


@pytest.mark.inside("tells the executor what to do")
def test_five_timeouts_sequence(runtime):
    """At a tenth of real time: the client drops after 3 s, the job takes 7 s."""
    request = a_nonce_request(7)

    for _ in range(2):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{runtime.url}/execute", json=request, timeout=3, trust_env=False)
    third = httpx.post(f"{runtime.url}/execute", json=request, timeout=3, trust_env=False)

    assert third.status_code == 200
    assert runtime.runs(request["execution_id"]) == 1
    identical([third, execute(runtime, request)])


def test_n_way_race(runtime, counted):
    request = counted.request(2)

    with ThreadPoolExecutor(RACERS) as threads:
        answers = list(threads.map(lambda _: execute(runtime, request), range(RACERS)))

    assert identical(answers) == answers[0].json()
    counted.are(request, 1)


@pytest.mark.parametrize("part", ["task_id", "execution_id"])
def test_key_parts(runtime, counted, part):
    request = counted.request()
    other = {**request, part: f"{request[part]}-other"}

    first, second = execute(runtime, request), execute(runtime, other)

    assert first.status_code == second.status_code == 200
    counted.differ(first, second)
    assert execute(runtime, request).content == first.content
    assert execute(runtime, other).content == second.content


def test_key_parts_of_two_attempts(runtime, counted):
    request = counted.request()

    first, second = (execute(runtime, {**request, "attempt_id": attempt}) for attempt in ("attempt-001", "attempt-002"))

    assert first.status_code == second.status_code == 200
    counted.differ(first, second)
    counted.are(request, 2)


@pytest.mark.inside("needs credentials of two callers")
def test_key_parts_of_two_callers(guarded):
    request = a_nonce_request()
    runtime_says, other_says = ("runtime", "s3cret/+"), ("other", "another-secret")

    first, second = execute(guarded, request, auth=runtime_says), execute(guarded, request, auth=other_says)

    assert first.status_code == second.status_code == 200
    assert first.content != second.content
    assert guarded.runs(request["execution_id"]) == 2
    assert execute(guarded, request, auth=runtime_says).content == first.content


def changed(request, *path):
    """A copy in which the member at the path is another one."""
    copied = copy.deepcopy(request)
    *parents, last = path
    inner = copied
    for name in parents:
        inner = inner[name]
    others = {"stage": "DIVERGE_MODE", "profile": "other", "task_type": "a2a_invoke"}
    inner[last] = others.get(last, "changed")
    return copied


@pytest.mark.parametrize(
    "path",
    [
        ("inputs", "prompt"),
        ("stage",),
        pytest.param(("profile",), marks=pytest.mark.inside("knows a second profile")),
        ("task_type",),
        ("task_contract", "protocol_version"),
        ("task_contract", "output_schema", "title"),
    ],
    ids=".".join,
)
def test_key_reuse_conflict_409(runtime, counted, path):
    request = counted.request(prompt="first")
    first = execute(runtime, request)

    conflict = execute(runtime, changed(request, *path))

    assert first.status_code == 200
    assert conflict.status_code == 409
    assert code_of(conflict, "key_conflict")
    assert execute(runtime, request).content == first.content
    counted.are(request, 1)


@pytest.mark.inside("tells the executor what to do")
def test_key_reuse_conflict_409_while_running(runtime):
    request = a_nonce_request(1.5)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(execute, runtime, request)
        wait_until(lambda: runtime.runs(request["execution_id"]) == 1, 10)
        conflict = execute(runtime, changed(request, "inputs", "prompt"))

    assert conflict.status_code == 409
    assert running.result().status_code == 200


def with_ids(counted, task_id, execution_id, attempt_id):
    return {**counted.request(), "task_id": task_id, "execution_id": execution_id, "attempt_id": attempt_id}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a|b", "c", "x"), ("a", "b|c", "x")),
        (("a", "b|c", "x"), ("a", "b", "c|x")),
        (("a/b", "c", "x"), ("a", "b/c", "x")),
        (("a\x00", "b", "x"), ("a", "\x00b", "x")),
        ((" ", "ab", "x"), ("a", "b", "x")),
        (("é", "same", "x"), ("e\u0301", "same", "x")),
        (("A", "same", "x"), ("a", "same", "x")),
        ((" a", "same", "x"), ("a", "same", "x")),
        (("l" * 10_240, "same", "x"), ("l" * 10_241, "same", "x")),
    ],
    ids=range(9),
)
def test_ambiguous_ids(runtime, counted, one, other):
    unique = str(uuid.uuid4())
    first_request, second_request = ({**with_ids(counted, *ids[:2], f"{unique}{ids[2]}")} for ids in (one, other))

    first, second = execute(runtime, first_request), execute(runtime, second_request)

    assert [first.status_code, second.status_code] == [200, 200], first.text + second.text
    counted.differ(first, second)
    assert execute(runtime, first_request).content == first.content


@pytest.mark.parametrize(
    "name",
    ["x" * 10_240, "line\nbreak", "a/b/../c", "#fragment?", "😀", "\x00", "\u2028", '"quoted"', "%2F", " "],
    ids=ascii,
)
def test_ambiguous_ids_of_any_kind(runtime, counted, name):
    request = with_ids(counted, f"{name}{uuid.uuid4()}", name, name)

    first, second = execute(runtime, request), execute(runtime, request)

    assert identical([first, second])["candidate_output"]["answer"]


@pytest.mark.parametrize("name", ["task_id", "execution_id", "attempt_id"])
def test_an_empty_id_names_no_piece(runtime, counted, name):
    answer = execute(runtime, {**counted.request(), name: ""})

    assert answer.status_code == 422
    assert error_of(answer)["error"].startswith(f"{name}: ")


@pytest.mark.inside("kills the door's processes")
def test_crash_recovery(recovery):
    lost, resent = recovery.answers.result()

    again = execute(recovery.runtime, recovery.request)
    assert recovery.killed >= 1
    assert lost.status_code == 502
    error_of(lost)
    identical([resent, again])
    assert recovery.runtime.runs(recovery.request["execution_id"]) == 2
    assert recovery.seconds < CRASH_SECONDS


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize(("upstream", "status"), [(False, 503), (True, 502)])
def test_transient_not_cached(runtime, upstream, status):
    request = a_nonce_request(fail_first=1, upstream=upstream)

    first, second, third = (execute(runtime, request) for _ in range(3))

    assert first.status_code == status
    assert error_of(first)["code"] in ("unavailable", "upstream_failed")
    identical([second, third])
    assert runtime.runs(request["execution_id"]) == 2


@pytest.mark.inside("tells the executor what to do")
def test_transient_not_cached_but_a_refusal_is(runtime):
    request = a_nonce_request(refuse=True)

    first, second = execute(runtime, request), execute(runtime, request)

    assert [first.status_code, second.status_code] == [400, 400]
    assert first.content == second.content
    assert runtime.runs(request["execution_id"]) == 1
