"""Tokens: name=secret entries, Basic and Bearer, several at once."""

import base64

import pytest

from piecework.edge.tokens import ANONYMOUS, Warned, authorization_in, caller_of, parse_tokens, sharing
from piecework.errors import SettingsError
from piecework.kernel.wiring import KernelDoor
from piecework.ops.wiring import OpsDoor
from piecework.runtime.wiring import RuntimeDoor

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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("a=1,b=2", []),
        ("a=1,a=2", []),
        ("a=1,a=1", []),
        ("a=1,b=1", ["a, b"]),
        ("b=1,a=2,a=1,c=2,b=1", ["b, a", "a, c"]),
    ],
)
def test_names_that_share_a_secret_are_found_and_rotation_is_not_sharing(text, names):
    assert sharing(parse_tokens(text)) == names


def test_a_shared_secret_is_told_once_and_opens_the_door_as_before_by_its_first_name():
    told = []
    warned, tokens = (
        Warned(lambda: lambda event, **fields: told.append((event, fields["names"]))),
        parse_tokens("b=one,a=one"),
    )

    assert warned.of(tokens) is tokens and warned.of(parse_tokens("b=one,a=one"))

    assert told == [("names_share_a_secret", "b, a")]
    assert caller_of("Bearer one", tokens) == "b" and caller_of(basic("a", "one"), tokens) == "a"
    warned.of(parse_tokens("b=two,a=two,c=two"))
    assert told[1:] == [("names_share_a_secret", "b, a, c")]


def test_no_secret_is_in_the_warning():
    told = []
    Warned(lambda: lambda event, **fields: told.append(str(fields))).of(parse_tokens("b=hunter2,a=hunter2"))

    assert len(told) == 1 and "hunter2" not in told[0]


@pytest.mark.parametrize(
    ("door", "name"),
    [
        (lambda env: RuntimeDoor(env).tokens(), "PIECEWORK_RUNTIME_TOKENS"),
        (lambda env: OpsDoor(env).access.caller("Bearer x"), "PIECEWORK_OPS_TOKENS"),
        (lambda env: KernelDoor(env).tokens(), "PIECEWORK_KERNEL_TOKENS"),
    ],
)
def test_each_door_says_so_in_its_log(door, name, caplog):
    door({name: "ann=x,bob=x", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"})

    assert "names_share_a_secret" in caplog.messages
