"""Corners of HTTP: raw answers, and what every caller of strangers makes of each. The next corner is one line more.

All callers go through one client, so each line is run against each of them: evidence, model endpoints, facilitators and
nodes, webhooks, the command line, and whoever reads a stream.
"""

import gzip
import json
import socket
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from piecework.errors import UpstreamFailed
from piecework.models.chat import Question, Turn
from piecework.models.openai import OpenAiModel
from piecework.net.addresses import chosen_target
from piecework.net.fetching import BodyTooLarge, Fetcher, FetchTimedOut, Unreachable
from piecework.net.http_client import HttpClient, Request
from piecework.webhooks.sending import SafePost
from piecework.worker.chain.exchange import Answer, Endpoint, Interrupted, NotSent
from piecework_cli.kernel import KernelClient
from piecework_cli.output import CommandError
from tests.support.misbehaving import answering, last

SAID = "as was said"
CHOICE = {"index": 0, "message": {"role": "assistant", "content": SAID}, "finish_reason": "stop"}
BODY = json.dumps({"success": True, "choices": [CHOICE]}).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
OK = b"HTTP/1.1 200 OK\r\n"
QUESTION = Question(model="m", system="s", turns=(Turn("user", "u"),), max_tokens=9, timeout_seconds=20)
WHOLE, BROKEN, HEAD_ONLY = "whole", "broken", "the head alone"  # of the last, a webhook's sender takes the status


def chunked(*parts, trailer=b""):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b"")[:-1]) + b"0\r\n" + trailer + b"\r\n"


PIECES = chunked(BODY[:7], BODY[7:])
CORNERS = {
    # interim answers (RFC 9110 15.2)
    "early hints": (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n" + OK + LENGTH + b"\r\n" + BODY,
        WHOLE,
    ),
    "processing": (b"HTTP/1.1 102 Processing\r\n\r\n" + OK + LENGTH + b"\r\n" + BODY, WHOLE),
    "continue": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + LENGTH + b"\r\n" + BODY, WHOLE),
    "five interim answers": (b"HTTP/1.1 103 Hm\r\nX: y\r\n\r\n" * 5 + OK + LENGTH + b"\r\n" + BODY, WHOLE),
    "thousands of interim answers": (b"HTTP/1.1 103 Hm\r\n\r\n" * 5_000 + OK + LENGTH + b"\r\n" + BODY, BROKEN),
    "an interim answer alone": (b"HTTP/1.1 103 Hm\r\n\r\n", BROKEN),
    "a switch nobody asked for": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n" + OK + LENGTH + b"\r\n" + BODY,
        BROKEN,
    ),
    # heads
    "three hundred lines": (OK + b"X-Line: a value\r\n" * 300 + LENGTH + b"\r\n" + BODY, WHOLE),
    "one long line": (OK + b"X-Policy: " + b"a" * 70_000 + b"\r\n" + LENGTH + b"\r\n" + BODY, WHOLE),
    "a head of megabytes": (OK + b"X-Line: a value\r\n" * 100_000 + LENGTH + b"\r\n" + BODY, BROKEN),
    "a line of megabytes": (OK + b"X-Line: " + b"a" * 2_000_000 + b"\r\n" + LENGTH + b"\r\n" + BODY, BROKEN),
    "no reason": (b"HTTP/1.1 200\r\n" + LENGTH + b"\r\n" + BODY, WHOLE),
    "bare line feeds": (b"HTTP/1.1 200 OK\nContent-Length: %d\n\n" % len(BODY) + BODY, WHOLE),
    "letters beyond ASCII": (OK + b"X-Name: caf\xc3\xa9 \xff\r\n" + LENGTH + b"\r\n" + BODY, WHOLE),
    "a folded line": (OK + b"X-Old: one\r\n two\r\n" + LENGTH + b"\r\n" + BODY, WHOLE),
    "an empty value": (OK + b"X-Empty:\r\n" + LENGTH + b"\r\n" + BODY, WHOLE),
    # blanks behind values (RFC 9110 5.5)
    "a blank behind a coding": (OK + b"Transfer-Encoding: chunked \r\n\r\n" + PIECES, WHOLE),
    "a tab behind a coding": (OK + b"Transfer-Encoding:\tchunked\t\r\n\r\n" + PIECES, WHOLE),
    "blanks around a length": (OK + b"Content-Length:   %d \t\r\n\r\n" % len(BODY) + BODY, WHOLE),
    "a blank behind identity": (OK + b"Content-Encoding: identity \r\n" + LENGTH + b"\r\n" + BODY, WHOLE),
    # transfer codings
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n" + PIECES, WHOLE),
    "chunks in capitals": (OK + b"Transfer-Encoding: Chunked\r\n\r\n" + PIECES, WHOLE),
    "chunks with a trailer": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(BODY, trailer=b"X-Sum: 1\r\n"),
        WHOLE,
    ),
    "chunks with extensions": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
        WHOLE,
    ),
    "two codings": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + PIECES, BROKEN),
    "two lines of codings": (OK + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + PIECES, BROKEN),
    "an unknown coding": (OK + b"Transfer-Encoding: x-own\r\n\r\n" + BODY, BROKEN),
    "chunks without their form": (OK + b"Transfer-Encoding: chunked\r\n\r\n" + BODY, HEAD_ONLY),
    "a chunk of negative size": (OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + BODY, HEAD_ONLY),
    "chunks without an end": (OK + b"Transfer-Encoding: chunked\r\n\r\n" + PIECES[:-5], HEAD_ONLY),
    # lengths
    "the length twice": (OK + LENGTH + LENGTH + b"\r\n" + BODY, WHOLE),
    "the length in a list": (OK + b"Content-Length: %d, %d\r\n\r\n" % (len(BODY), len(BODY)) + BODY, WHOLE),
    "two lengths": (OK + LENGTH + b"Content-Length: 3\r\n\r\n" + BODY, BROKEN),
    "a length with a sign": (OK + b"Content-Length: +%d\r\n\r\n" % len(BODY) + BODY, BROKEN),
    "thousands of digits": (OK + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n" + BODY, BROKEN),
    "no number": (OK + b"Content-Length: many\r\n\r\n" + BODY, BROKEN),
    "the end of the connection": (OK + b"\r\n" + BODY, WHOLE),
    "an old version": (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, WHOLE),
    "too little": (OK + b"Content-Length: 900\r\n\r\n" + BODY, HEAD_ONLY),
    "more than announced": (OK + LENGTH + b"\r\n" + BODY + b"and more", WHOLE),
    # what is not HTTP
    "nothing": (b"", BROKEN),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-Le", BROKEN),
    "a page": (b"<html>hello</html>\r\n\r\n", BROKEN),
    "a mail server": (b"220 ready\r\n", BROKEN),
    "a newer protocol": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", BROKEN),
    "zero bytes in a value": (OK + b"X: a\x00b\r\n" + LENGTH + b"\r\n" + BODY, BROKEN),
}


def by_evidence(server):
    fetcher = Fetcher(resolve=lambda host, port: ["127.0.0.1"], allow=lambda address: True, timeout_seconds=20)
    try:
        fetched = fetcher.get(f"http://evidence.test:{server.port}/x")
    except Unreachable:
        return BROKEN
    return WHOLE if (fetched.status, fetched.body) == (200, BODY) else f"taken for {fetched}"


def by_model(server):
    try:
        return WHOLE if OpenAiModel(server.url, "k").ask(QUESTION).text == SAID else "another text"
    except UpstreamFailed:
        return BROKEN


def by_facilitator(server):
    answer = Endpoint(server.url).exchange("POST", "/settle", {}, {}, 20)
    if isinstance(answer, Interrupted):
        return BROKEN
    return WHOLE if answer == Answer(200, json.loads(BODY)) else f"taken for {answer}"


def by_webhook(server):
    fetcher = Fetcher(resolve=lambda host, port: ["127.0.0.1"], allow=lambda address: True, timeout_seconds=20)
    try:
        return WHOLE if SafePost(fetcher, check=str)(f"http://seeker.test:{server.port}/", b"{}", {}) == 200 else "?"
    except Unreachable:
        return BROKEN


def by_command(server):
    try:
        return WHOLE if KernelClient(server.url).ask("GET", "/x") == json.loads(BODY) else "?"
    except CommandError as error:
        return BROKEN if "does not answer" in str(error) else str(error)


def by_stream(server):
    try:
        with HttpClient().stream(Request("GET", chosen_target(server.url), {}), 20) as (status, parts):
            return WHOLE if status == 200 and b"".join(parts) == BODY else "?"
    except Unreachable:
        return BROKEN


CALLERS = [by_evidence, by_model, by_facilitator, by_webhook, by_command, by_stream]


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("corner", CORNERS)
def test_every_caller_reads_an_answer_alike(caller, corner):
    raw, expected = CORNERS[corner]
    if expected == HEAD_ONLY:
        expected = WHOLE if caller is by_webhook else BROKEN

    with answering(raw) as server:
        assert caller(server) == expected


@pytest.mark.parametrize("caller", CALLERS)
def test_an_answer_that_comes_byte_by_byte_is_put_together(caller):
    raw = OK + b"Transfer-Encoding: chunked \r\n\r\n" + PIECES

    with answering([raw[at : at + 1] for at in range(len(raw))]) as server:
        assert caller(server) == WHOLE


@pytest.mark.parametrize("caller", CALLERS)
def test_a_redirect_is_not_followed(caller):
    with answering(b"HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n") as server:
        assert caller(server) != WHOLE
        assert len(server.requests) == 1


PACKED = {
    "gzip": ("gzip", gzip.compress(BODY), WHOLE),
    "x-gzip, with a blank": ("X-Gzip ", gzip.compress(BODY), WHOLE),
    "deflate": ("deflate", zlib.compress(BODY), WHOLE),
    "another": ("br", BODY, BROKEN),
    "cut": ("gzip", gzip.compress(BODY)[:-9], BROKEN),
    "broken": ("gzip", BODY, BROKEN),
    "a bomb": ("gzip", gzip.compress(b" " * 9_000_000), BROKEN),
}


@pytest.mark.parametrize("caller", [by_model, by_facilitator])
@pytest.mark.parametrize("name", PACKED)
def test_a_service_that_packs_unasked_is_understood(caller, name):
    coding, body, expected = PACKED[name]

    with answering(last(body, 200, f"Content-Encoding: {coding}")) as server:
        assert caller(server) == expected


@pytest.mark.parametrize("reads_on", [True, False])
def test_an_answer_before_the_whole_request_was_read_counts(reads_on):
    """A server that will not read the body says so and hangs up, at once or after what still comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse():
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\n{}")
                connection.shutdown(socket.SHUT_WR)
                while reads_on and connection.recv(1_000_000):
                    pass

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        long = "x" * 20_000_000  # more than the two sockets hold
        answer = Endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}").exchange("POST", "", long, {}, 20)
        thread.join()

    assert answer == Answer(413, {})


class SilentResolver:
    """A name server that does not answer before the test is over, or before ten seconds."""

    def __init__(self):
        self.real, self.over, self.asked, self.gave_up = socket.getaddrinfo, threading.Event(), [], []

    def __call__(self, host, port, *rest, **more):
        if host == "127.0.0.1":
            return self.real(host, port, *rest, **more)
        self.asked.append(host)
        self.over.wait(10)
        self.gave_up.append(host)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")


@pytest.fixture
def silent_resolver(monkeypatch):
    resolver = SilentResolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.over.set()


def evidence_of_a_silent_name():
    with pytest.raises(FetchTimedOut):
        Fetcher(timeout_seconds=0.2).get("http://silent-evidence.test/x")


def model_of_a_silent_name():
    with pytest.raises(UpstreamFailed, match="in time"):
        OpenAiModel("http://silent-model.test/v1", "k").ask(replace(QUESTION, timeout_seconds=0.2))


def facilitator_of_a_silent_name():
    answer = Endpoint("https://silent-facilitator.test").exchange("POST", "/settle", {}, {}, 0.2)

    assert isinstance(answer, NotSent)  # nothing was sent, so nothing can have been paid


def webhook_of_a_silent_name():
    with pytest.raises(FetchTimedOut):
        SafePost(Fetcher(timeout_seconds=0.2))("https://silent-seeker.test/", b"{}", {})


@pytest.mark.parametrize(
    "call",
    [evidence_of_a_silent_name, model_of_a_silent_name, facilitator_of_a_silent_name, webhook_of_a_silent_name],
)
def test_a_name_server_that_does_not_answer_is_waited_for_no_longer_than_stated(silent_resolver, call):
    before = threading.active_count()

    for _ in range(4):
        call()

        assert silent_resolver.gave_up == []  # nobody waited for it
    assert len(silent_resolver.asked) == 1  # whoever asks again waits for the look-up that is under way
    assert threading.active_count() <= before + 1


def test_names_that_are_never_found_hold_a_bounded_number_of_threads(silent_resolver):
    before = threading.active_count()

    for number in range(40):
        with pytest.raises(FetchTimedOut):
            Fetcher(timeout_seconds=0.02).get(f"http://silent-{number}.test/x")

        assert silent_resolver.gave_up == []
    assert threading.active_count() - before <= 32


def test_many_threads_may_look_the_same_name_up_at_once():
    asked, together = [], threading.Barrier(16)

    def resolve(host, port):
        asked.append(host)
        return ["127.0.0.1"]

    def get(url):
        together.wait(60)
        return Fetcher(resolve=resolve, allow=lambda address: True, timeout_seconds=60).get(url).status

    with answering(last(b"x")) as server, ThreadPoolExecutor(16) as pool:
        for _ in range(10):
            assert set(pool.map(get, [f"http://evidence.test:{server.port}/x"] * 16)) == {200}

    assert 10 <= len(asked) <= 160


def test_a_body_over_the_limit_is_cut_off_whether_announced_or_not():
    for raw in (last(b"x" * 200), OK + b"\r\n" + b"x" * 200):
        with answering(raw) as server, pytest.raises(BodyTooLarge):
            Fetcher(allow=lambda address: True, body_limit=100).get(f"{server.url}/x")


def test_parts_of_a_stream_are_read_as_they_come_until_nothing_comes_for_the_stated_silence():
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        target = chosen_target(f"http://127.0.0.1:{listener.getsockname()[1]}")
        told = pool.submit(_told, listener, OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        with pytest.raises(FetchTimedOut), HttpClient().stream(Request("GET", target, {}), 0.5) as (_, parts):
            heard.extend(parts)
        told.result().close()

    assert heard == [b"one"]


def _told(listener, raw):
    connection, _ = listener.accept()
    connection.sendall(raw)
    return connection
