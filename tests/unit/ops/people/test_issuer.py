"""An issuer's keys: kept, changed, forgotten; an issuer that is down or lies closes the door and never opens it."""

import json

import pytest

from piecework.errors import Unavailable
from piecework.ops.access import SignInRefused
from piecework.ops.people.kept import FRESH_SECONDS, PAUSE_SECONDS, STALE_SECONDS
from piecework.ops.people.keys import keys_in
from tests.support.ops.issuer import (
    DESCRIBED,
    DESCRIBED_AT,
    KEYS_AT,
    NOW,
    URL,
    Moment,
    Publisher,
    a_sign_in,
    private_key,
    published,
    token,
)

LATER = int(NOW) + 100_000


@pytest.fixture
def clock():
    return Moment()


def asked_for_keys(publisher):
    return publisher.asked.count(KEYS_AT)


def test_keys_are_asked_for_once(clock):
    publisher = Publisher(published("one"), published("two", "ES256"))
    sign_in = a_sign_in(publisher, clock=clock)

    for _ in range(3):
        sign_in.caller(token("one", exp=LATER))
        sign_in.caller(token("two", "ES256", exp=LATER))
    assert publisher.asked == [DESCRIBED_AT, KEYS_AT]


def test_a_new_key_counts_as_soon_as_the_pause_is_over(clock):
    publisher = Publisher(published("one"))
    sign_in = a_sign_in(publisher, clock=clock)
    sign_in.caller(token())
    publisher.publish(published("two"), published("one"))

    clock.now += PAUSE_SECONDS
    assert sign_in.caller(token("two"))
    assert asked_for_keys(publisher) == 2


def test_unknown_names_cause_one_question_in_five_seconds_whoever_sends_them(clock):
    publisher = Publisher(published("one"))
    sign_in = a_sign_in(publisher, clock=clock)
    for n in range(50):
        with pytest.raises(SignInRefused):
            sign_in.caller(token(f"unknown-{n}", signer=private_key("one")))
        clock.now += 0.5

    assert asked_for_keys(publisher) <= 25 / PAUSE_SECONDS + 1
    assert publisher.asked.count(DESCRIBED_AT) == 1


def test_a_withdrawn_key_is_forgotten_with_the_next_answer(clock):
    publisher = Publisher(published("one"), published("two"))
    sign_in = a_sign_in(publisher, clock=clock)
    sign_in.caller(token("one", exp=LATER))
    publisher.publish(published("two"))

    clock.now += FRESH_SECONDS - 1
    assert sign_in.caller(token("one", exp=LATER))
    clock.now += 1
    with pytest.raises(SignInRefused):
        sign_in.caller(token("one", exp=LATER))
    assert sign_in.caller(token("two", exp=LATER))


def test_an_issuer_that_is_down_closes_the_door_for_all_of_its_people(clock):
    publisher = Publisher(published("one"))
    publisher.is_down = True
    sign_in = a_sign_in(publisher, clock=clock)

    for _ in range(3):
        with pytest.raises(Unavailable):
            sign_in.caller(token())
    assert publisher.asked == [DESCRIBED_AT]  # and is not asked again at once
    publisher.is_down = False
    clock.now += PAUSE_SECONDS
    assert sign_in.caller(token())


def test_known_keys_count_for_an_hour_while_the_issuer_is_down_and_not_longer(clock):
    publisher = Publisher(published("one"))
    sign_in = a_sign_in(publisher, clock=clock)
    sign_in.caller(token(exp=LATER))
    publisher.is_down = True

    clock.now += STALE_SECONDS - 1
    assert sign_in.caller(token(exp=LATER))
    clock.now += PAUSE_SECONDS + 1
    with pytest.raises(Unavailable):
        sign_in.caller(token(exp=LATER))


def test_a_clock_that_goes_back_does_not_keep_keys_for_ever(clock):
    publisher = Publisher(published("one"))
    sign_in = a_sign_in(publisher, clock=clock)
    sign_in.caller(token())
    clock.now -= 100
    sign_in.caller(token(iat=NOW - 200))

    assert asked_for_keys(publisher) == 2


@pytest.mark.parametrize(
    "described",
    [
        {**DESCRIBED, "issuer": URL + "/"},
        {**DESCRIBED, "issuer": None},
        {**DESCRIBED, "jwks_uri": "http://issuer.example/keys"},
        {**DESCRIBED, "jwks_uri": "file:///etc/passwd"},
        {**DESCRIBED, "jwks_uri": "http://127.0.0.1:9001/2018-06-01/runtime/invocation/next"},
        {**DESCRIBED, "jwks_uri": "https://user@issuer.example/keys"},
        {**DESCRIBED, "jwks_uri": "https://issuer.example/keys#x"},
        {**DESCRIBED, "jwks_uri": ["https://issuer.example/keys"]},
        {**DESCRIBED, "jwks_uri": "https://[issuer.example/keys"},
        {**DESCRIBED, "authorization_endpoint": "javascript:alert(1)"},
        {**DESCRIBED, "token_endpoint": "https://tokens.example/; script-src *"},
        {**DESCRIBED, "end_session_endpoint": "javascript:alert(1)"},
        {"issuer": URL},
        [],
        b"not json",
        b'{"issuer":"a","issuer":"b"}',
        b"[" * 100_000,
    ],
)
def test_a_description_that_is_not_the_issuers_own_closes_the_door_and_is_logged(described, clock):
    warned = []
    publisher = Publisher(published("one"), described=described)
    sign_in = a_sign_in(publisher, clock=clock, warned=warned)

    with pytest.raises(Unavailable):
        sign_in.caller(token())
    with pytest.raises(Unavailable):
        sign_in.described()
    assert publisher.asked == [DESCRIBED_AT]
    assert [event for event, _ in warned] == ["issuer_not_understood"]


@pytest.mark.parametrize("keys", [{}, {"keys": []}, {"keys": None}, {"keys": {"one": 1}}, [], b"", b"<html>"])
def test_an_issuer_without_usable_keys_closes_the_door(keys, clock):
    publisher = Publisher()
    publisher.pages[KEYS_AT] = keys

    with pytest.raises(Unavailable):
        a_sign_in(publisher, clock=clock).caller(token())


ONE = published("one")
TWO = published("two", "ES256")


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        "key",
        [],
        {},
        {**ONE, "use": "enc"},
        {**ONE, "alg": "RSA-OAEP"},
        {**ONE, "alg": "HS256"},
        {**ONE, "kty": "oct", "k": "c2VjcmV0"},
        {**ONE, "kty": "EC"},
        {**ONE, "n": None},
        {**ONE, "n": ""},
        {**ONE, "n": "!!"},
        {**ONE, "n": 7},
        {**ONE, "e": "AA"},
        {**ONE, "e": "AQ"},
        {**ONE, "e": "_" * 64},
        {**ONE, "n": "_" * 2_000},
        {**ONE, "kid": None},
        {**ONE, "kid": 7},
        {name: value for name, value in ONE.items() if name != "e"},
        published("small", bits=1024),
        published("curve", "ES384"),
        {**TWO, "x": TWO["y"]},
        {**TWO, "x": TWO["x"][:-2]},
        {**TWO, "crv": "P-384"},
        {**TWO, "crv": None},
        {**TWO, "kty": "RSA"},
    ],
)
def test_a_key_that_cannot_check_a_sign_in_is_left_out_and_the_others_count(entry):
    assert set(keys_in({"keys": [entry, ONE, TWO]})) == {("one", "RS256"), ("two", "ES256")}
    assert keys_in({"keys": [entry]}) == {}


def test_no_more_than_a_hundred_keys_are_read():
    assert keys_in({"keys": [None] * 100 + [ONE]}) == {}


def test_what_browsers_are_told_holds_the_issuers_endpoints_and_no_secret(clock):
    told = a_sign_in(clock=clock).described()

    assert told["authorization_endpoint"] == DESCRIBED["authorization_endpoint"]
    assert told["token_endpoint"] == DESCRIBED["token_endpoint"]
    assert (told["kind"], told["client_id"], told["scope"]) == ("oidc", "console-client", "openid")
    assert "secret" not in json.dumps(told)
