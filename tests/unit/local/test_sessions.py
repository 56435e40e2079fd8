"""A browser signs in at the local operator's door by a link that works once."""

import json

import pytest

from local.gateway.events import Call
from local.gateway.sessions import COOKIE, LASTS_SECONDS, MOST_SESSIONS, ONCE, PATH, SECRET, Sessions
from local.run import with_a_link

URL = "http://127.0.0.1:8790"
OWN = {"host": "127.0.0.1:8790", "origin": URL, "sec-fetch-site": "same-origin"}
READ = {"host": "127.0.0.1:8790", "sec-fetch-site": "same-origin"}


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def said():
    return []


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(said, clock):
    return Sessions(URL, "first", "the-secret", now=clock, say=said.append)


def a_call(method="GET", path="/ops/status", *, body=b"", cookie="", **headers):
    sent = {**(OWN if method != "GET" else READ), **{name.replace("_", "-"): value for name, value in headers.items()}}
    pairs = tuple((name, value) for name, value in {**sent, "cookie": cookie}.items() if value)
    return Call(method, path, "", pairs, body, "127.0.0.1", "r", "t")


def sign_in(sessions, once="first", **headers):
    return sessions.answer(a_call("POST", PATH, body=json.dumps({"once": once}).encode(), **headers))


def cookie_of(reply):
    [value] = [value for name, value in reply[1] if name == "Set-Cookie"]
    return value.partition(";")[0]


def is_admitted(sessions, call):
    return sessions.admitted(call).header("authorization") == "Bearer the-secret"


def test_a_link_signs_in_once_and_the_next_is_said(sessions, said):
    reply = sign_in(sessions)

    assert reply[0] == 204
    [cookie] = [value for name, value in reply[1] if name == "Set-Cookie"]
    assert "; HttpOnly" in cookie and "; SameSite=Strict" in cookie and f"Max-Age={LASTS_SECONDS}" in cookie
    assert is_admitted(sessions, a_call(cookie=cookie_of(reply)))
    assert sign_in(sessions)[0] == 401
    [line] = said
    assert sign_in(sessions, line.rpartition("#once=")[2])[0] == 204


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"once":1}',
        b'{"once":""}',
        b'{"once":"wrong"}',
        b'{"once":"\xc3\xa9"}',
        b'{"once":"\\ud800"}',
    ],
)
def test_another_token_signs_nobody_in_and_does_not_spend_the_link(sessions, body):
    assert sessions.answer(a_call("POST", PATH, body=body))[0] == 401
    assert sign_in(sessions)[0] == 204


STRANGERS = {
    "another name that was bound here": {"host": "evil.example:8790"},
    "another port": {"host": "127.0.0.1:8791"},
    "another site": {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
    "another port's page": {"origin": "http://127.0.0.1:9999", "sec_fetch_site": "same-site"},
    "a page without an origin": {"origin": "null"},
}


@pytest.mark.parametrize("headers", STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_neither_signs_in_nor_uses_a_session(sessions, headers):
    assert sign_in(sessions, **headers)[0] == 403
    cookie = cookie_of(sign_in(sessions))

    assert not is_admitted(sessions, a_call("POST", cookie=cookie, **headers))
    assert is_admitted(sessions, a_call("POST", cookie=cookie))


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_reads_that_another_site_causes_do_not_use_the_session(sessions, site):
    cookie = cookie_of(sign_in(sessions))

    assert not is_admitted(sessions, a_call(cookie=cookie, sec_fetch_site=site))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"),
        lambda text: text.partition(".")[0],
        lambda text: f"{COOKIE}=",
        lambda text: f"{COOKIE}=.",
        lambda text: "other=1",
    ],
)
def test_a_cookie_that_was_not_given_proves_nothing(sessions, change):
    cookie = cookie_of(sign_in(sessions))

    assert not is_admitted(sessions, a_call(cookie=change(cookie)))


OTHERS = [
    'theme={"dark": true}',
    "a@b=1",
    "list[0]=x",
    "n\u00e9=1",
    "bare",
    "path=/",
    f"{COOKIE}=of.another",
    'open="',
    "=x",
    "",
]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("form", ["{other}; {own}", "{own}; {other}", "{other};{own}"])
def test_what_other_programs_of_this_machine_keep_in_a_browser_does_not_hide_the_session(sessions, other, form):
    cookie = form.format(other=other, own=cookie_of(sign_in(sessions)))

    assert is_admitted(sessions, a_call(cookie=cookie))
    assert sessions.answer(a_call("DELETE", PATH, cookie=cookie))[0] == 204
    assert not is_admitted(sessions, a_call(cookie=cookie))


def test_another_process_does_not_know_the_session(sessions):
    cookie = cookie_of(sign_in(sessions))

    assert not is_admitted(Sessions(URL, "first", "the-secret"), a_call(cookie=cookie))


def test_a_session_ends_with_its_time_and_by_signing_out(sessions, clock, said):
    cookie = cookie_of(sign_in(sessions))
    clock.now += LASTS_SECONDS - 1
    assert is_admitted(sessions, a_call(cookie=cookie))
    clock.now += 1
    assert not is_admitted(sessions, a_call(cookie=cookie))

    cookie = cookie_of(sign_in(sessions, said[-1].rpartition("#once=")[2]))
    assert sessions.answer(a_call("DELETE", PATH, cookie=cookie))[0] == 204
    assert not is_admitted(sessions, a_call(cookie=cookie))


def test_sessions_are_bounded_and_the_oldest_goes(sessions, said):
    first = cookie_of(sign_in(sessions))
    for _ in range(MOST_SESSIONS - 1):
        sign_in(sessions, said[-1].rpartition("#once=")[2])
    assert is_admitted(sessions, a_call(cookie=first))
    last = cookie_of(sign_in(sessions, said[-1].rpartition("#once=")[2]))

    assert not is_admitted(sessions, a_call(cookie=first)) and is_admitted(sessions, a_call(cookie=last))


def test_a_credential_of_ones_own_goes_first(sessions):
    cookie = cookie_of(sign_in(sessions))

    assert (
        sessions.admitted(a_call(cookie=cookie, authorization="Bearer mine")).header("authorization") == "Bearer mine"
    )


def test_other_paths_and_methods_are_left_alone(sessions):
    assert sessions.answer(a_call("POST", "/console/sessions")) is None
    assert sessions.answer(a_call("PUT", PATH))[0] == 405
    assert Sessions.of({}, URL) is None


def test_the_link_stands_for_a_name_of_its_own_where_the_door_has_tokens():
    assert with_a_link({}).keys() == {ONCE}
    made = with_a_link({"PIECEWORK_OPS_TOKENS": "ann=a"})
    assert made["PIECEWORK_OPS_TOKENS"] == f"ann=a,local={made[SECRET]}" and "PIECEWORK_OPS_TOKEN_ROLES" not in made
    made = with_a_link({"PIECEWORK_OPS_TOKENS": "ann=a", "PIECEWORK_OPS_TOKEN_ROLES": "ann=viewer"})
    assert made["PIECEWORK_OPS_TOKEN_ROLES"] == "ann=viewer,local=approver+client+operator+viewer"


def test_a_configured_name_keeps_its_roles():
    made = with_a_link({"PIECEWORK_OPS_TOKENS": "local=a", "PIECEWORK_PARAM_OpsTokenRoles": "local=viewer"})

    assert "PIECEWORK_OPS_TOKEN_ROLES" not in made and made["PIECEWORK_OPS_TOKENS"].startswith("local=a,local=")
