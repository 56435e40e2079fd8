"""Tokens: name=secret entries, Basic and Bearer, several at once."""

import base64

import pytest

from piecework.edge.tokens import ANONYMOUS, authorization_in, caller_of, parse_tokens
from piecework.errors import SettingsError

TOKENS = parse_tokens("kernel-a=s3cret/+, kernel-b=other=with=equals,kernel-a=next")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "caller"),
    [
        (basic("kernel-a", "s3cret/+"), "kernel-a"),
        (basic("kernel-a", "next"), "kernel-a"),
        (basic("kernel-b", "other=with=equals"), "kernel-b"),
        ("Bearer other=with=equals", "kernel-b"),
        ("bearer next", "kernel-a"),
        (basic("kernel-b", "next"), None),
        (basic("kernel-a", "wrong"), None),
        (basic("kernel-a", ""), None),
        (basic("", "next"), None),
        ("Bearer ", None),
        ("Basic !!!", None),
        ("Basic /w==", None),
        ("Digest next", None),
        ("next", None),
        ("", None),
    ],
)
def test_callers_are_told_by_name_and_secret(authorization, caller):
    assert caller_of(authorization, TOKENS) == caller


def test_the_specification_credential_is_read():
    assert caller_of("Basic cnVudGltZTpzM2NyZXQvKw==", parse_tokens("runtime=s3cret/+")) == "runtime"


def test_without_tokens_everybody_is_anonymous():
    assert caller_of("", ()) == ANONYMOUS == caller_of("Bearer x", ())


@pytest.mark.parametrize("text", ["nosecret", "=x", "a b=x", "a=", "é=x"])
def test_entries_without_name_or_secret_are_refused_without_being_shown(text):
    with pytest.raises(SettingsError) as caught:
        parse_tokens(text)
    assert text not in caught.value.message


def test_the_header_is_found_in_any_case():
    assert authorization_in({"AUTHORIZATION": "Bearer x"}) == "Bearer x"
    assert authorization_in(None) == "" == authorization_in({"authorization": None})


@pytest.mark.parametrize("text", [",", " ", " , ,", "\n", ",,"])
def test_a_text_without_an_entry_is_a_mistake_and_opens_nothing(text):
    with pytest.raises(SettingsError, match="name=secret"):
        parse_tokens(text)


def test_only_an_empty_text_means_that_there_are_no_tokens():
    assert parse_tokens("") == () and caller_of("", parse_tokens("")) == ANONYMOUS
