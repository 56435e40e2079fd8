"""Data availability: which references are looked at, and what each finding means for a verdict."""

import threading
import time

import pytest

from piecework.durable.artifacts import Served
from piecework.errors import Unavailable
from piecework.net.fetching import Fetched, FetchTimedOut, Unreachable
from piecework.runtime.verify.fetch import EvidenceCheck, FetchEvidence
from piecework.runtime.verify.flow import NOTHING_FOUND, no_evidence_check
from tests.support.runtime.verification import a_reference

BASE = "https://runtime.test/prod"
TOKEN = "t" * 22
DATA = b"evidence"
SKIPPED = "418 references over the first 32 were not checked"


class Artifacts:
    """An evidence store that notes what it is asked."""

    def __init__(self, data=None, error=None):
        self.data, self.error, self.asked = data, error, []

    def read(self, digest, token):
        self.asked.append((digest, token))
        if self.error:
            raise self.error
        return None if self.data is None else Served(self.data, "text/plain")


def own_reference(data=DATA, **changed):
    made = a_reference("", data)
    return {**made, "uri": f"{BASE}/artifacts/{made['digest'].removeprefix('sha256:')}/{TOKEN}", **changed}


def never(url):
    raise AssertionError(f"fetched {url}")


def codes(references, *, mode="own", store=None, get=never):
    check = EvidenceCheck(FetchEvidence(mode), store or Artifacts(DATA), get)
    return check.under(BASE)(references).codes


def answering(status=200, body=DATA, **headers):
    return lambda url: Fetched(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def failing(error):
    def get(url):
        raise error

    return get


def test_off_looks_at_nothing():
    assert EvidenceCheck(FetchEvidence.OFF, Artifacts(), never).under(BASE) is no_evidence_check
    assert no_evidence_check([own_reference()]) is NOTHING_FOUND


def test_own_references_are_read_from_the_store():
    store = Artifacts(DATA)

    assert codes([own_reference()], store=store) == ()
    assert store.asked == [(own_reference()["digest"].removeprefix("sha256:"), TOKEN)]


@pytest.mark.parametrize(
    "uri",
    [
        "https://elsewhere.test/x",
        f"{BASE}.evil.test/artifacts/x/y",
        f"{BASE}/execute",
        f"http://runtime.test/prod/artifacts/{'0' * 64}/{TOKEN}",
        "artifact://reference/sha256:00",
        "",
        5,
    ],
)
def test_own_mode_ignores_what_is_not_ours(uri):
    store = Artifacts()

    assert codes([a_reference(uri)], store=store) == ()
    assert store.asked == []


@pytest.mark.parametrize("path", ["", "x/y", f"{'0' * 64}", f"{'0' * 64}/{TOKEN}/..", f"../{'0' * 64}/{TOKEN}"])
def test_a_malformed_own_address_never_reaches_the_store(path):
    store = Artifacts(DATA)

    assert codes([own_reference(uri=f"{BASE}/artifacts/{path}")], store=store) == (200,)
    assert store.asked == []


@pytest.mark.parametrize("store", [Artifacts(None), Artifacts(error=Unavailable("throttled"))])
def test_own_evidence_out_of_reach_is_inconclusive(store):
    assert codes([own_reference()], store=store) == (200,)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"digest": f"sha256:{'0' * 64}"}, (203,)),
        ({"size_bytes": 7}, (203,)),
        ({"size_bytes": None}, ()),
        ({"size_bytes": "8"}, ()),
        ({"digest": "sha256:a3f1d8c2..."}, (200,)),
        ({"digest": "blake3:00"}, (200,)),
        ({"digest": None}, (200,)),
        ({"digest": own_reference()["digest"].upper().replace("SHA256", "sha256")}, ()),
        ({"digest": own_reference()["digest"].removeprefix("sha256:")}, ()),
    ],
)
def test_bytes_are_compared_with_what_the_reference_states(changed, expected):
    assert codes([own_reference(**changed)]) == expected


@pytest.mark.parametrize(
    ("get", "expected"),
    [
        (answering(), ()),
        (answering(content_encoding="identity"), ()),
        (answering(body=b"others"), (203,)),
        (answering(content_encoding="gzip"), (200,)),
        (answering(302), (200,)),
        (answering(206), (200,)),
        (answering(404), (200,)),
        (answering(503), (200,)),
        (answering(401), (202,)),
        (answering(403), (202,)),
        (failing(Unreachable("no")), (200,)),
        (failing(FetchTimedOut("slow")), (201,)),
    ],
)
def test_all_mode_turns_each_answer_into_its_code(get, expected):
    assert codes([a_reference("https://elsewhere.test/x", DATA)], mode="all", get=get) == expected


def test_own_evidence_is_never_fetched_over_the_network():
    assert codes([own_reference()], mode="all") == ()


def test_codes_of_several_references_are_gathered_once_and_in_order():
    answers = {"a": failing(FetchTimedOut("slow")), "b": answering(401), "c": answering(404), "d": answering(401)}
    references = [a_reference(name, DATA) for name in answers]

    assert codes(references, mode="all", get=lambda url: answers[url](url)) == (200, 201, 202)


@pytest.mark.parametrize(("count", "noted"), [(32, ()), (450, ("418 references over the first 32 were not checked",))])
def test_references_beyond_the_32nd_have_no_effect(count, noted):
    store = Artifacts(DATA)
    references = [own_reference()] * 32 + [own_reference(digest=f"sha256:{'0' * 64}")] * (count - 32)

    findings = EvidenceCheck(FetchEvidence.OWN, store).under(BASE)(references)

    assert (findings.codes, findings.notes, len(store.asked)) == ((), noted, 32)


def test_what_is_not_there_together_in_time_has_timed_out():
    released, started = threading.Event(), time.monotonic()

    def get(url):
        released.wait(60)
        return Fetched(200, {}, DATA)

    check = EvidenceCheck(FetchEvidence.ALL, Artifacts(), get, together_seconds=0.2)
    try:
        findings = check.under(BASE)([a_reference("https://elsewhere.test/x", DATA)] * 32)
    finally:
        released.set()

    assert findings.codes == (201,)
    assert time.monotonic() - started < 30


def test_references_are_fetched_side_by_side_within_bounds():
    running, most, lock = 0, 0, threading.Lock()

    def get(url):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return Fetched(200, {}, DATA)

    assert codes([a_reference("https://elsewhere.test/x", DATA)] * 32, mode="all", get=get) == ()
    assert 1 < most <= 8
