"""Asking an issuer over HTTP: bounded, never redirected, and anything but a whole answer 200 is none."""

import ssl
import time

import pytest

from piecework.errors import Unavailable
from piecework.ops.people import asking
from piecework.ops.people.asking import ANSWER_BYTES, Asking
from tests.support.http_servers import hang, serving


def ask(script):
    warned = []
    with serving(script) as server:
        try:
            return Asking(lambda event, **fields: warned.append(fields))(f"{server.url}/keys"), server.seen, warned
        except Unavailable as error:
            return error, server.seen, warned


def test_a_whole_answer_is_read():
    found, seen, warned = ask((200, b'{"keys":[]}'))

    assert (found, warned) == (b'{"keys":[]}', [])
    [(method, path, headers, _)] = seen
    assert (method, path, headers["Accept"]) == ("GET", "/keys", "application/json")
    assert "Authorization" not in headers and "Cookie" not in headers


@pytest.mark.parametrize(
    "script",
    [
        (301, b""),
        (302, b""),
        (307, b""),
        (204, b""),
        (401, b"{}"),
        (404, b"{}"),
        (500, b"{}"),
        (200, b"x" * (ANSWER_BYTES + 1)),
    ],
)
def test_an_answer_that_is_no_answer_is_none(script):
    found, seen, warned = ask(script)

    assert isinstance(found, Unavailable) and len(seen) == len(warned) == 1
    assert warned[0]["to"] == "issuer"


def test_an_issuer_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(asking, "SECONDS", 0.2)
    began = time.monotonic()
    found, _, _ = ask(hang)

    assert isinstance(found, Unavailable) and time.monotonic() - began < 3


def test_nobody_there_and_a_stranger_s_certificate_are_no_answers():
    with serving((200, b"{}")) as server:
        url = server.url
    with pytest.raises(Unavailable):
        Asking()(url)
    with serving((200, b"{}"), secure=True) as server, pytest.raises(Unavailable) as told:
        Asking()(server.url)
    assert isinstance(told.value.__cause__.__cause__, ssl.SSLCertVerificationError)
