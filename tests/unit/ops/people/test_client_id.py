"""A client's id that the deployment knows only after the functions exist is read at run time."""

import pytest

from piecework.errors import Unavailable
from piecework.ops.people.configured import sign_in
from piecework.ops.store.parameters import ParameterStore
from tests.support.misbehaving import answer, misbehaving
from tests.support.transport import Here

ENV = {
    "PIECEWORK_OPS_ISSUER": "https://issuer.example",
    "PIECEWORK_OPS_CLIENT_ID_PARAMETER": "/piecework/stack/console-client-id",
    "PIECEWORK_OPS_GROUPS_CLAIM": "cognito:groups",
    "PIECEWORK_OPS_GROUP_ROLES": "ops=operator",
}


def read(*answers):
    with misbehaving(*answers) as server:
        try:
            return ParameterStore(lambda: Here(server).ssm).text("/a/b"), server.requests
        except Unavailable as error:
            return error, server.requests


def test_it_is_read_by_its_name():
    found, requests = read(answer(b'{"Parameter":{"Name":"/a/b","Value":"client-1"}}'))

    assert found == "client-1" and requests[0].body == b'{"Name":"/a/b"}'


@pytest.mark.parametrize(
    "said",
    [
        answer(b'{"__type":"ParameterNotFound"}', 400),
        answer(b'{"__type":"AccessDeniedException"}', 400),
        answer(b"{}"),
        answer(b'{"Parameter":null}'),
        answer(b'{"Parameter":{"Value":""}}'),
        answer(b'{"Parameter":{"Value":7}}'),
    ],
)
def test_without_it_nobody_is_let_in(said):
    assert isinstance(read(said)[0], Unavailable)


def test_it_is_asked_for_once_and_makes_the_rules_of_cognito():
    asked = []

    def parameter(name):
        asked.append(name)
        return "client-1"

    made = sign_in(ENV, parameter, lambda *_, **__: None)
    assert asked == []
    assert [made.expected() for _ in range(3)] == [
        ("https://issuer.example", "client-1", "", "cognito:groups", True)
    ] * 3
    assert asked == ["/piecework/stack/console-client-id"]
