"""One contract for rate windows, held against the fake and against DynamoDB; and what the table costs."""

import threading
from uuid import uuid4

import pytest

from piecework.aws.attributes import plain
from piecework.kernel.policy.windows import window_id
from piecework.kernel.store.rate_table import RateTable
from tests.support.fakes import START_MS
from tests.support.kernel.policies import FakeRateWindows

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def table(request):
    aws = request.getfixturevalue("embedded_aws")
    return aws, aws.new_table("WorkTable")


@pytest.fixture(params=["fake", "dynamodb"])
def copies(request):
    """Two copies over one store."""
    if request.param == "fake":
        one = FakeRateWindows()
        return one, one
    aws, name = request.getfixturevalue("table")
    return RateTable(aws.client("dynamodb"), name), RateTable(aws.client("dynamodb"), name)


@pytest.fixture
def agent():
    return uuid4().hex


class TestRateWindows:
    def test_as_many_calls_are_counted_as_the_limit_says_whoever_asks(self, copies, agent):
        answers = [copies[n % 2].take(agent, "mail.send", 3, MINUTE_MS, START_MS + n) for n in range(5)]

        assert answers == [True, True, True, False, False]

    def test_a_window_slides_call_by_call(self, copies, agent):
        def take(after_ms):
            return copies[0].take(agent, "mail.send", 2, MINUTE_MS, START_MS + after_ms)

        assert [take(0), take(30_000), take(59_999)] == [True, True, False]
        assert [take(60_000), take(60_001), take(90_000)] == [True, False, True]

    def test_a_refused_call_counts_nothing(self, copies, agent):
        for after_ms in (0, 10, 20):
            copies[0].take(agent, "mail.send", 1, MINUTE_MS, START_MS + after_ms)

        assert copies[1].take(agent, "mail.send", 1, MINUTE_MS, START_MS + MINUTE_MS)

    def test_agents_and_tools_have_windows_of_their_own(self, copies, agent):
        assert copies[0].take(agent, "mail.send", 1, MINUTE_MS, START_MS)
        assert copies[0].take(f"{agent}2", "mail.send", 1, MINUTE_MS, START_MS)
        assert copies[0].take(agent, "mail.list", 1, MINUTE_MS, START_MS)
        assert not copies[0].take(agent, "mail.send", 1, MINUTE_MS, START_MS)

    def test_rules_of_one_pair_share_its_window(self, copies, agent):
        take = copies[0].take
        assert all(take(agent, "mail.send", 100, 10 * MINUTE_MS, START_MS + n) for n in range(4))

        assert not take(agent, "mail.send", 3, MINUTE_MS, START_MS + 10)
        assert take(agent, "mail.send", 3, MINUTE_MS, START_MS + 2 * MINUTE_MS)
        assert not take(agent, "mail.send", 5, 10 * MINUTE_MS, START_MS + 2 * MINUTE_MS)

    def test_a_call_of_a_copy_whose_clock_is_ahead_counts(self, copies, agent):
        assert copies[0].take(agent, "mail.send", 1, MINUTE_MS, START_MS + 5_000)
        assert not copies[1].take(agent, "mail.send", 1, MINUTE_MS, START_MS)

    def test_of_many_concurrent_calls_exactly_the_limit_goes_through(self, copies, agent):
        start, answers = threading.Barrier(12), []

        def take(n):
            start.wait()
            answers.append(copies[n % 2].take(agent, "mail.send", 5, MINUTE_MS, START_MS))

        threads = [threading.Thread(target=take, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(answers) == [False] * 7 + [True] * 5


class Counting:
    """A client that counts its puts."""

    def __init__(self, client):
        self._client = client
        self.puts = 0

    def put_item(self, **put):
        self.puts += 1
        return self._client.put_item(**put)


@pytest.fixture
def counted(table):
    aws, name = table
    client = Counting(aws.client("dynamodb"))
    return client, RateTable(client, name, sleep=lambda seconds: None), RateTable(aws.client("dynamodb"), name)


def test_an_allowed_call_is_one_request_and_a_refused_one_none(counted, agent):
    client, windows, _ = counted

    allowed = [windows.take(agent, "mail.send", 2, MINUTE_MS, START_MS + n) for n in range(4)]

    assert allowed == [True, True, False, False]
    assert client.puts == 2


def test_a_copy_that_was_overtaken_learns_of_it_with_its_own_request(counted, agent):
    client, windows, other = counted
    windows.take(agent, "mail.send", 3, MINUTE_MS, START_MS)
    other.take(agent, "mail.send", 3, MINUTE_MS, START_MS)

    assert windows.take(agent, "mail.send", 3, MINUTE_MS, START_MS)
    assert not windows.take(agent, "mail.send", 3, MINUTE_MS, START_MS)
    assert client.puts == 3


def test_a_put_whose_answer_was_lost_counts_once(counted, agent):
    client, windows, _ = counted
    sent = client._client.put_item

    def twice(**put):
        sent(**put)
        return sent(**put)

    client.put_item = twice

    assert windows.take(agent, "mail.send", 2, MINUTE_MS, START_MS)
    client.put_item = sent
    assert windows.take(agent, "mail.send", 2, MINUTE_MS, START_MS)
    assert not windows.take(agent, "mail.send", 2, MINUTE_MS, START_MS)


def test_a_window_that_its_table_forgot_begins_anew(counted, table, agent):
    aws, name = table
    _, windows, _ = counted
    windows.take(agent, "mail.send", 2, MINUTE_MS, START_MS)
    key = {"pk": {"S": f"RATE#{window_id(agent, 'mail.send')}"}, "sk": {"S": "WINDOW"}}
    aws.client("dynamodb").delete_item(TableName=name, Key=key)

    assert windows.take(agent, "mail.send", 2, MINUTE_MS, START_MS + 10 * MINUTE_MS)
    item = aws.client("dynamodb").get_item(TableName=name, Key=key)["Item"]
    assert int(item["expires_at"]["N"]) * 1000 > START_MS + 11 * MINUTE_MS


def test_calls_that_no_window_asks_for_any_more_are_not_kept(counted, table, agent):
    aws, name = table
    _, windows, other = counted
    for n in range(5):
        windows.take(agent, "mail.send", 3, 1, START_MS + 10 * n)

    key = {"pk": {"S": f"RATE#{window_id(agent, 'mail.send')}"}, "sk": {"S": "WINDOW"}}
    item = aws.client("dynamodb").get_item(TableName=name, Key=key)["Item"]
    assert len(plain(item)["calls"]) == 6
    assert other.take(agent, "mail.send", 3, 1, START_MS + 41)
