"""Roles of tokens: their text, and who has which."""

import pytest

from piecework.edge.roles import EVERY, NO_NEED, Caller, Role, needed, parse_roles
from piecework.errors import SettingsError

UNKNOWN = "ada has a role that is not one of client, agent, runner, approver, viewer, operator"


def test_a_text_gives_each_name_its_roles():
    table = parse_roles("ada=approver+viewer, desk=agent,")

    assert table.caller("ada") == Caller("ada", frozenset({Role.APPROVER, Role.VIEWER}), is_limited=True)
    assert table.caller("desk").roles == {Role.AGENT}


def test_a_name_that_stands_twice_has_the_roles_of_both():
    assert parse_roles("a=client,a=agent").caller("a").roles == {Role.CLIENT, Role.AGENT}


def test_everybody_has_every_role_while_no_name_has_any():
    assert parse_roles("").caller("desk") == Caller("desk", EVERY, is_limited=False)


def test_a_name_without_roles_is_a_viewer_as_soon_as_another_name_has_some():
    assert parse_roles("ada=approver").caller("desk") == Caller("desk", frozenset({Role.VIEWER}), is_limited=True)


def test_everybody_has_every_role_at_an_open_door():
    assert parse_roles("ada=approver").caller("") == Caller("", EVERY, is_limited=False)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ada", "name=role"),
        ("ada=", "name=role"),
        ("=viewer", "name=role"),
        ("a da=viewer", "name=role"),
        (f"{'a' * 65}=viewer", "name=role"),
        (" , ", "leave the setting out"),
        ("ada=boss", UNKNOWN),
        ("ada=viewer+", UNKNOWN),
        ("ada=Viewer", UNKNOWN),
        ("ada=viewer;bob=agent", UNKNOWN),
        ("bob=viewer,ada=" + "x" * 9_999, UNKNOWN),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_what_is_wrong(text, sentence):
    with pytest.raises(SettingsError) as refused:
        parse_roles(text)

    assert sentence in refused.value.message
    assert len(refused.value.message) < 200


def test_a_secret_among_roles_is_not_shown():
    with pytest.raises(SettingsError) as refused:
        parse_roles("ada=s3cret")

    assert "s3cret" not in refused.value.message


def test_names_without_a_token_are_found():
    assert parse_roles("b=agent,a=client,c=viewer").without_token(["c", "d"]) == ["a", "b"]


def test_one_of_the_needed_roles_suffices():
    ada = Caller("ada", frozenset({Role.APPROVER}), is_limited=True)

    assert ada.may(frozenset({Role.CLIENT, Role.APPROVER}))
    assert not ada.may(frozenset({Role.CLIENT}))
    assert Caller("bob", frozenset(), is_limited=True).may(NO_NEED)


@pytest.mark.parametrize(
    ("roles", "sentence"),
    [
        ({Role.APPROVER}, "this needs the role approver"),
        ({Role.OPERATOR, Role.CLIENT}, "this needs the role client or operator"),
        ({Role.VIEWER, Role.OPERATOR, Role.CLIENT}, "this needs the role client, viewer or operator"),
    ],
)
def test_a_refusal_names_the_roles_that_would_do(roles, sentence):
    assert needed(frozenset(roles)) == sentence
