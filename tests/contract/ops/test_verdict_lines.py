"""One contract for lines of verdicts, on the fake and on the embedded AWS's own log groups."""

import json
import time
from uuid import uuid4

import pytest

from piecework.ops.store import verdict_lines
from piecework.ops.store.verdict_lines import VerdictLines
from piecework.ops.verdicts import Verdicts
from tests.support.ops.logs import FakeLogs, a_line
from tests.support.ops.requests import VIEWER

NOW_MS = time.time_ns() // 1_000_000


class Fake:
    def __init__(self, request):
        self.group, self.client = "verify", FakeLogs(now_ms=NOW_MS)

    def write(self, *lines):
        for at_ms, text in lines:
            self.client.write(text, at_ms)


class Embedded:
    def __init__(self, request):
        aws = request.getfixturevalue("embedded_aws")
        self.group, self.client = f"verify-{uuid4()}", aws.clients.logs
        self._writer = aws.client("logs")

    def write(self, *lines):
        """Each in a stream of its own."""
        self._writer.create_log_group(logGroupName=self.group)
        for at_ms, text in lines:
            stream = {"logGroupName": self.group, "logStreamName": str(uuid4())}
            self._writer.create_log_stream(**stream)
            self._writer.put_log_events(**stream, logEvents=[{"timestamp": at_ms, "message": text}])


@pytest.fixture(params=[Fake, Embedded])
def log(request):
    return request.param(request)


def view(log):
    return Verdicts(VerdictLines(lambda: log.client, log.group), lambda: NOW_MS, kept_days=30)


def page(log, **query):
    return view(log).page(VIEWER, {name: [value] for name, value in query.items()})


def judged(at_ms, candidate_id, **members):
    return at_ms, json.dumps(a_line(candidate_id=candidate_id, **members), ensure_ascii=False)


def test_a_group_that_is_not_there_holds_nothing(log):
    assert page(log)["items"] == []


def test_verdicts_of_all_streams_are_found_between_their_moments_and_other_lines_are_not(log):
    log.write(
        judged(NOW_MS - 2_000, "second"),
        (NOW_MS - 1_500, "START RequestId"),
        judged(NOW_MS - 3_000, "third"),
        judged(NOW_MS - 1_000, "fïrst", status="failed", codes=(101,)),
    )

    def ids(**query):
        return [item["candidate_id"] for item in page(log, **query)["items"]]

    assert ids() == ["fïrst", "second", "third"]
    assert ids(candidate_id="fïrst") == ids(status="failed") == ["fïrst"]
    assert ids(since_ms=str(NOW_MS - 2_000), until_ms=str(NOW_MS - 2_000)) == ["second"]


def test_an_answer_that_is_cut_loses_no_line(log, monkeypatch):
    monkeypatch.setattr(verdict_lines, "MOST_LINES", 4)
    log.write(*(judged(NOW_MS - number * 100, str(number)) for number in range(9)))

    found, cursor = [], ""
    while cursor is not None:
        part = page(log, **({"cursor": cursor} if cursor else {}))
        found, cursor = found + [item["candidate_id"] for item in part["items"]], part["next"]

    assert found == [str(number) for number in range(9)]
