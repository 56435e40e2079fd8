"""The operator's door: paths, credentials, roles, bodies of failures."""

import json

import pytest

from piecework.edge.roles import parse_roles
from piecework.edge.tokens import parse_tokens
from piecework.errors import SettingsError, Unavailable
from piecework.ops.access import Access
from piecework.ops.door import ROUTES as ALL_ROUTES
from piecework.ops.door import serve
from piecework.ops.kernel_routes import KERNEL
from piecework.ops.money.asking import OF_ONE_PAYMENT, TooOften
from tests.support.ops.issuer import Publisher, a_sign_in, token
from tests.support.ops.requests import an_event
from tests.support.runtime.runtime_handlers import Context, Lines

TOKENS = parse_tokens("ann=a-secret,bob=b-secret,cid=c-secret,dan=d-secret,eve=e-secret")
ROLES = parse_roles("ann=viewer,bob=operator,cid=approver,dan=agent+client")
ACCESS = Access(lambda: TOKENS, ROLES)
ROUTES = {path: methods for path, methods in ALL_ROUTES.items() if not path.startswith(KERNEL)}  # whose roles differ
READ_BY = {"a-secret": 200, "b-secret": 200, "c-secret": 200, "d-secret": 403, "e-secret": 200, "wrong": 401, "": 401}
IN_PATHS = ("key", "digest", "contract_id", "name", "event_id", "execution_id")
PATHS = [path.format(**dict.fromkeys(IN_PATHS, "x1")) for path in ROUTES]
PUBLIC = ["/ops/health", "/ops/sign-in"]
CLOSED = [path for path in PATHS if path not in PUBLIC]


def answers(made=lambda asked: {"by": asked.caller.name}):
    return dict.fromkeys(ROUTES, made)


def ask(event, *, made=None, access=ACCESS, lines=None):
    answer = serve("ops", answers(made) if made else answers(), event, Context(), access, lines or Lines())
    return answer["statusCode"], json.loads(answer["body"]), answer["headers"]


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize(("token", "status"), READ_BY.items())
def test_every_path_that_reads_is_for_viewers_operators_and_approvers(path, token, status):
    for method in ROUTES[route_of(path)]:
        if method == "GET":
            assert ask(an_event(path, token=token))[0] == status


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize(("token", "status"), READ_BY.items())
def test_every_path_that_writes_is_for_operators_alone(path, token, status):
    for method in ROUTES[route_of(path)]:
        if method != "GET":
            expected = 403 if status == 200 and token != "b-secret" else status
            assert ask(an_event(path, method=method, token=token))[0] == expected


def route_of(path):
    return list(ROUTES)[PATHS.index(path)]


RESENT = "/ops/approvals/{execution_id}/webhooks/{event_id}/resend"


@pytest.mark.parametrize("long", ["x" * 129, "é" * 65, "😀"])
@pytest.mark.parametrize("name", ["execution_id", "event_id"])
def test_an_id_in_a_path_that_no_key_can_be_made_of_is_404_before_anything_is_done(name, long):
    called = []
    named = {"execution_id": "x" * 128, "event_id": "e" * 128}

    assert ask(an_event(RESENT.format(**named), method="POST", token="b-secret"), made=called.append)[0] == 200
    path = RESENT.format(**named | {name: long})
    assert ask(an_event(path, method="POST", token="b-secret"), made=called.append)[0] == 404
    assert len(called) == 1


def test_a_refusal_names_the_role_that_is_missing():
    status, body, _ = ask(an_event("/ops/status", token="d-secret"))

    assert (status, body["code"]) == (403, "forbidden")
    assert {"viewer", "operator", "approver"} <= set(body["error"].replace(",", "").split())


def test_health_and_how_to_sign_in_need_no_credential_and_nothing_else_does_without():
    assert [ask(an_event(path))[0] for path in PUBLIC] == [200, 200]
    for path in CLOSED:
        [method] = ROUTES[route_of(path)]
        status, _, headers = ask(an_event(path, method=method))
        assert (status, headers["WWW-Authenticate"].partition(" ")[0]) == (401, "Basic")


def test_without_roles_every_name_may_do_everything():
    everybody = Access(lambda: TOKENS, parse_roles(""))

    assert ask(an_event("/ops/status", token="d-secret"), access=everybody)[0] == 200


@pytest.mark.parametrize("path", ["/", "/ops", "/ops/", "/ops/status/", "//ops/status", "/ops/nope", "/v0/executions"])
def test_a_path_that_the_door_does_not_have_is_404_for_everybody(path):
    status, body, _ = ask(an_event(path, token="b-secret"))

    assert (status, body["code"]) == (404, "not_found")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_another_method_is_405_and_names_those_that_are_taken(method):
    status, body, headers = ask(an_event("/ops/status", method=method, token="b-secret"))

    assert (status, body["code"], headers["Allow"]) == (405, "method_not_allowed", "GET")


def test_what_is_broken_is_said_without_its_text_and_logged():
    lines = Lines()

    def broken(asked):
        raise RuntimeError("a secret")

    status, body, _ = ask(an_event("/ops/status", token="a-secret"), made=broken, lines=lines)

    assert (status, body["code"]) == (500, "internal") and "secret" not in body["error"]
    assert lines.bugs == ["ops"]


def test_a_secret_that_is_out_of_reach_closes_the_door_for_a_while():
    def unreachable():
        raise Unavailable("a secret is out of reach; try again")

    status, _, headers = ask(an_event("/ops/status", token="a-secret"), access=Access(unreachable, ROLES))

    assert (status, headers["Retry-After"]) == (503, "1")


def test_what_is_asked_too_often_says_when_to_come_again():
    def busy(asked):
        raise TooOften("wait")

    status, body, headers = ask(an_event("/ops/status", token="b-secret"), made=busy)

    assert (status, body["code"], headers["Retry-After"]) == (
        429,
        "rate_limited",
        str(round(1 / OF_ONE_PAYMENT.per_second)),
    )


def test_an_emptied_secret_closes_the_door():
    def emptied():
        raise SettingsError("the tokens secret does not hold a name=secret entry")

    assert ask(an_event("/ops/status", token=""), access=Access(emptied, ROLES))[0] == 500


def test_nothing_is_cached_and_the_outcome_line_names_caller_and_route_but_no_ids():
    lines = Lines()

    _, _, headers = ask(an_event("/ops/status", token="a-secret", query={"task_id": "t-1"}), lines=lines)

    assert headers["Cache-Control"] == "no-store"
    [line] = lines.outcomes
    assert (line["caller"], line["route"], line["status"]) == ("ann", "GET /ops/status", 200)
    assert "t-1" not in str(line)


class TestPeople:
    """A person's token opens what the groups' roles open, beside the door's own tokens."""

    ACCESS = Access(lambda: TOKENS, ROLES, a_sign_in())

    def ask(self, path, token, method="GET"):
        return ask(an_event(path, method=method, token=token), access=self.ACCESS)

    @pytest.mark.parametrize("path", CLOSED)
    def test_every_path_takes_people_with_the_role_and_refuses_those_without(self, path):
        for method in ROUTES[route_of(path)]:
            viewer = 200 if method == "GET" else 403
            asked = {groups: self.ask(path, token(groups=[groups]), method)[0] for groups in ("ops", "people", "cooks")}
            assert asked == {"ops": 200, "people": viewer, "cooks": 403}
            assert self.ask(path, token(exp=1), method)[0] == 401

    def test_the_doors_tokens_work_beside_it(self):
        assert self.ask("/ops/status", "a-secret")[1] == {"by": "ann"}
        assert self.ask("/ops/status", token())[1] == {"by": "person:7b5c8a1e"}
        assert self.ask("/ops/status", "wrong")[0] == 401

    def test_people_get_in_while_the_secrets_of_tokens_are_out_of_reach(self):
        def unreachable():
            raise Unavailable("a secret is out of reach; try again")

        access = self.ACCESS._replace(tokens=unreachable)
        assert ask(an_event("/ops/status", token=token()), access=access)[0] == 200
        assert ask(an_event("/ops/status", token="a-secret"), access=access)[0] == 503

    def test_a_token_that_does_not_count_is_told_in_the_bearers_own_scheme(self):
        status, body, headers = self.ask("/ops/status", token(exp=1))

        assert (status, body["code"]) == (401, "unauthorized") and "expired" in body["error"]
        assert headers["WWW-Authenticate"] == 'Bearer realm="piecework", error="invalid_token"'

    def test_an_issuer_that_is_down_is_503_for_people_and_nothing_for_tokens(self):
        publisher = Publisher()
        publisher.is_down = True
        access = self.ACCESS._replace(people=a_sign_in(publisher))

        status, body, headers = ask(an_event("/ops/status", token=token()), access=access)
        assert (status, body["code"], headers["Retry-After"]) == (503, "unavailable", "1")
        assert ask(an_event("/ops/status", token="a-secret"), access=access)[0] == 200

    def test_without_sign_in_a_signed_token_is_a_wrong_secret(self):
        assert ask(an_event("/ops/status", token=token()))[0] == 401

    def test_with_people_and_no_tokens_the_door_is_not_open(self):
        access = Access(tuple, parse_roles(""), a_sign_in())

        assert [ask(an_event("/ops/status", token=given), access=access)[0] for given in ("", "x")] == [401, 401]

    def test_a_signed_token_in_basic_is_no_credential(self):
        event = an_event("/ops/status", headers={"Authorization": f"Basic {token()}"})

        assert ask(event, access=self.ACCESS)[0] == 401

    def test_the_outcome_line_names_the_person_and_nothing_of_the_token(self):
        lines = Lines()
        ask(an_event("/ops/status", token=token(email="ann@example.org")), access=self.ACCESS, lines=lines)

        [line] = lines.outcomes
        assert line["caller"] == "person:7b5c8a1e" and "ann@" not in str(line) and "eyJ" not in str(line)
