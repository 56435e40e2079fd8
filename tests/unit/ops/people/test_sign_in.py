"""Whose token counts at the operator's door: every check fails alone, and what is hostile is refused."""

import json

import jwt
import pytest

from piecework.edge.roles import Role
from piecework.edge.tokens import parse_tokens
from piecework.errors import Forbidden, PieceworkError, SettingsError, Unavailable
from piecework.ops.access import SignInRefused
from piecework.ops.people.claims import parse_group_roles
from tests.support.ops.issuer import (
    CLAIMS,
    CLIENT,
    COGNITO,
    EXPECTED,
    NOW,
    OF_COGNITO,
    URL,
    Publisher,
    a_sign_in,
    b64,
    private_key,
    published,
    signed_raw,
    token,
)

HEADER = {"alg": "RS256", "kid": "one"}


def refused(text, sign_in=None):
    with pytest.raises(SignInRefused) as told:
        (sign_in or a_sign_in()).caller(text)
    assert told.value.message.isascii() and len(told.value.message) < 120
    return told.value.message


def test_a_person_is_named_by_the_subject_in_a_form_that_no_token_can_have():
    caller = a_sign_in().caller(token())

    assert caller == ("person:7b5c8a1e", {Role.OPERATOR}, True)
    with pytest.raises(SettingsError):
        parse_tokens(f"{caller.name}=secret")


def test_an_address_is_never_the_name():
    assert a_sign_in().caller(token(email="ann@example.org", username="ann")).name == "person:7b5c8a1e"


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_tokens_of_both_algorithms_count(algorithm):
    sign_in = a_sign_in(Publisher(published("one", "RS256"), published("two", "ES256")))

    assert sign_in.caller(token({"RS256": "one", "ES256": "two"}[algorithm], algorithm)).roles == {Role.OPERATOR}


def test_a_person_has_the_roles_of_all_groups_that_are_mapped():
    found = a_sign_in().caller(token(groups=["people", "cooks", "ops", 7, None, ["ops"]]))

    assert found.roles == {Role.OPERATOR, Role.APPROVER, Role.VIEWER}


@pytest.mark.parametrize("groups", [[], ["cooks"], "cooks", "", None, {"ops": True}, ["OPS"], [" ops"], 7, [["ops"]]])
def test_without_a_mapped_group_a_person_is_refused_although_signed_in(groups):
    with pytest.raises(Forbidden, match="your groups may not use"):
        a_sign_in().caller(token(groups=groups))
    with pytest.raises(Forbidden):
        a_sign_in().caller(token(without=["groups"]))


def test_groups_count_only_in_the_claim_that_is_configured():
    with pytest.raises(Forbidden):
        a_sign_in(expected=COGNITO).caller(token(claims=OF_COGNITO, without=["cognito:groups"], groups=["ops"]))
    assert a_sign_in().caller(token(groups="ops")).roles == {Role.OPERATOR}


def test_a_group_does_not_help_a_token_that_is_not_signed_by_the_issuer():
    assert "not signed" in refused(token(signer=private_key("stranger")))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"iss": URL + "/"}, "issuer"),
        ({"iss": URL.upper()}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"exp": NOW - 30}, "expired"),
        ({"exp": "9999999999"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": None}, "exp"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"iat": NOW + 31}, "not valid yet"),
        ({"iat": "now"}, "iat"),
        ({"nbf": None}, "nbf"),
        ({"client_id": "another"}, "not for this console"),
        ({"client_id": None}, "not for this console"),
        ({"azp": "another"}, "not for this console"),
        ({"aud": "another"}, "not for this console"),
        ({"aud": ["another", CLIENT + "x"]}, "not for this console"),
        ({"aud": None}, "not for this console"),
        ({"aud": []}, "not for this console"),
        ({"aud": {CLIENT: 1}}, "not for this console"),
        ({"token_use": "id"}, "access token"),
        ({"at_hash": "x"}, "access token"),
        ({"c_hash": "x"}, "access token"),
        ({"s_hash": "x"}, "access token"),
        ({"nonce": ""}, "access token"),
        ({"typ": "ID"}, "access token"),
        ({"scope": ""}, "access token"),
        ({"scope": None}, "access token"),
        ({"sub": ""}, "subject"),
        ({"sub": "a b"}, "subject"),
        ({"sub": "ä"}, "subject"),
        ({"sub": "x" * 256}, "subject"),
        ({"sub": 7}, "subject"),
        ({"sub": "a\n"}, "subject"),
    ],
)
def test_each_claim_alone_refuses_a_token_that_is_signed(changes, says):
    made = json.dumps({**CLAIMS, **changes}).encode()  # PyJWT would not write some of these

    assert says in refused(signed_raw(json.dumps(HEADER).encode(), made))


@pytest.mark.parametrize(
    ("missing", "says"),
    [(["exp"], "expired"), (["iss"], "issuer"), (["sub"], "subject"), (["aud", "client_id"], "for")],
)
def test_a_claim_that_is_needed_cannot_be_left_out(missing, says):
    assert says in refused(token(without=missing))


def test_clocks_may_differ_by_half_a_minute():
    assert a_sign_in().caller(token(exp=NOW - 29, iat=NOW + 29, nbf=NOW + 29)) == a_sign_in().caller(token())


def test_the_client_alone_is_enough_where_there_is_no_audience_unless_one_is_configured():
    assert a_sign_in().caller(token(without=["aud"]))
    assert a_sign_in().caller(token(without=["client_id"]))
    with_api = EXPECTED._replace(audience="api://console")
    assert a_sign_in(expected=with_api).caller(token(aud=["other", "api://console"]))
    for wrong in (token(), token(without=["aud"])):
        assert "aud" in refused(wrong, a_sign_in(expected=with_api))


OF_ID = ("iss", "sub", "aud", "exp", "iat", "groups")  # OpenID Connect Core, section 2: what each ID token has


@pytest.mark.parametrize("audience", ["", CLIENT])
@pytest.mark.parametrize("more", [{}, {"azp": CLIENT}, {"auth_time": int(NOW), "acr": "1", "amr": ["pwd"]}])
@pytest.mark.parametrize("aud", [CLIENT, [CLIENT], [CLIENT, "api://console"]])
def test_a_token_of_who_signed_in_does_not_count_although_its_hashes_are_left_out(aud, more, audience):
    claims = {name: CLAIMS[name] for name in OF_ID} | {"aud": aud} | more
    sign_in = a_sign_in(expected=EXPECTED._replace(audience=audience))

    assert "not an access token" in refused(token(claims=claims), sign_in)
    if aud == [CLIENT, "api://console"]:
        refused(token(claims=claims), a_sign_in(expected=EXPECTED._replace(audience="api://console")))


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt"])
def test_a_token_that_says_that_it_is_for_access_counts_without_scopes(typ):
    assert a_sign_in().caller(token(without=["scope"], headers={"typ": typ}))


@pytest.mark.parametrize("typ", ["id+jwt", "logout+jwt", "dpop+jwt", "", 7, ["at+jwt"]])
def test_a_token_that_says_that_it_is_another_thing_does_not_count(typ):
    made = signed_raw(json.dumps({**HEADER, "typ": typ}).encode(), json.dumps(CLAIMS).encode())

    assert "not an access token" in refused(made)


def test_scopes_may_have_their_other_name_and_an_api_of_its_own_needs_none():
    assert a_sign_in().caller(token(without=["scope"], scp=["openid"]))
    with_api = EXPECTED._replace(audience="api://console")
    assert a_sign_in(expected=with_api).caller(token(without=["scope"], aud="api://console"))
    assert a_sign_in().caller(token(without=["scope", "aud"]))


@pytest.mark.parametrize("changes", [{"token_use": "id"}, {"client_id": "another"}, {"token_use": None}])
def test_of_cognito_only_an_access_token_of_the_consoles_client_counts(changes):
    sign_in = a_sign_in(expected=COGNITO)

    assert sign_in.caller(token(claims=OF_COGNITO)).name == "person:7b5c8a1e"
    refused(token(claims={**OF_COGNITO, **changes}), sign_in)
    refused(token(claims=OF_COGNITO, without=["token_use"]), sign_in)
    refused(token(claims=OF_COGNITO, without=["client_id"]), sign_in)


class TestWhatAStrangerSends:
    def test_no_algorithm_and_no_shared_secret_is_taken(self):
        shown = published("one")["n"].encode()
        bare = b64(json.dumps({"alg": "none", "kid": "one"}).encode()) + "." + b64(json.dumps(CLAIMS).encode()) + "."

        assert "base64" in refused(bare) or "algorithm" in refused(bare)
        for algorithm in ("none", "None", "nOnE", "HS256", "RS1", "RS512", "PS256", "ES384", "", None, 7, ["RS256"]):
            header = json.dumps({"alg": algorithm, "kid": "one"}).encode()
            assert "algorithm" in refused(signed_raw(header, json.dumps(CLAIMS).encode()))
        assert "algorithm" in refused(jwt.encode(CLAIMS, shown * 2, "HS256", headers={"kid": "one"}))

    def test_a_key_is_not_used_for_another_algorithm_than_its_own(self):
        sign_in = a_sign_in(Publisher(published("one", "RS256"), published("two", "ES256")))

        assert "not signed" in refused(token("one", "ES256"), sign_in)  # the name of the RSA key
        assert "not signed" in refused(token("two", "RS256"), sign_in)
        said = a_sign_in(Publisher(published("one", "RS256", alg="RS512"), published("two")))
        assert "not signed" in refused(token("one"), said)

    def test_keys_of_one_name_for_two_algorithms_both_count(self):
        sign_in = a_sign_in(Publisher(published("one", "RS256"), published("one", "ES256")))

        assert sign_in.caller(token("one", "RS256")) == sign_in.caller(token("one", "ES256"))

    def test_the_second_key_of_a_name_does_not_take_its_place(self):
        stranger = {**published("stranger"), "kid": "one"}

        assert a_sign_in(Publisher(published("one"), stranger)).caller(token())
        refused(token(signer=private_key("stranger")), a_sign_in(Publisher(published("one"), stranger)))

    def test_a_key_that_the_token_brings_is_not_looked_at(self):
        publisher = Publisher(published("one"))
        brought = {"jwk": published("stranger"), "jku": "https://evil.example/keys", "x5u": "https://evil.example/x"}

        assert "not signed" in refused(token(signer=private_key("stranger"), headers=brought), a_sign_in(publisher))
        assert all("evil" not in url for url in publisher.asked)

    @pytest.mark.parametrize("kid", [None, "", 7, ["one"], "x" * 257, {"one": 1}])
    def test_a_key_needs_a_name(self, kid):
        header = json.dumps({"alg": "RS256", "kid": kid}).encode()

        assert "name its key" in refused(signed_raw(header, json.dumps(CLAIMS).encode()))

    @pytest.mark.parametrize("extension", [{"crit": ["exp"]}, {"crit": []}, {"b64": False}])
    def test_an_extension_is_not_ignored(self, extension):
        header = json.dumps({**HEADER, **extension}).encode()

        assert "extension" in refused(signed_raw(header, json.dumps(CLAIMS).encode()))

    @pytest.mark.parametrize(
        "payload",
        [
            b'{"sub":"a","sub":"b"}',
            b"[" * 5_000 + b"]" * 2_000,
            b"[]",
            b"null",
            b'"text"',
            b"",
            b"\xff\xfe",
            b"\xef\xbb\xbf{}",
            b'{"exp":NaN}',
            b'{"exp":1e999}',
            b'{"sub":"\\ud800"}',
            b"{} {}",
        ],
    )
    def test_a_part_that_two_readers_could_read_differently_is_refused(self, payload):
        text = signed_raw(json.dumps(HEADER).encode(), payload)
        assert refused(text)
        assert refused(signed_raw(payload, json.dumps(CLAIMS).encode()))

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: text + "=",
            lambda text: text.replace(".", ".=", 1),
            lambda text: text + ".",
            lambda text: text + "\n",
            lambda text: " " + text,
            lambda text: text.rpartition(".")[0] + ".",
            lambda text: text.rpartition(".")[0],
            lambda text: text[:-1] + chr(ord(text[-1]) + 1),
            lambda text: text.replace("e", "é", 1),
            lambda text: text + "A" * 20_000,
            lambda text: "." + text,
            lambda text: "eyJ..",
            lambda text: "eyJ" + "." * 100_000,
            lambda text: text.replace("_", "/").replace("-", "+") + "+",
        ],
    )
    def test_a_text_that_is_not_the_one_way_to_write_a_token_is_refused(self, change):
        assert change(token()) != token()
        refused(change(token()))

    def test_another_way_to_write_the_last_bits_is_refused(self):
        whole = token()  # 256 bytes end in a character of which four bits are nothing
        last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        other = whole[:-1] + last[last.index(whole[-1]) + 1]

        assert "base64" in refused(other)

    @pytest.mark.parametrize("length", [0, 1, 63, 65, 70, 72])
    def test_a_signature_of_another_length_is_refused(self, length):
        sign_in = a_sign_in(Publisher(published("two", "ES256")))
        body = token("two", "ES256").rpartition(".")[0]

        assert refused(f"{body}.{b64(bytes(length))}", sign_in)

    def test_a_hostile_token_causes_no_call_unless_it_fits_in_all_but_its_signature(self):
        publisher = Publisher(published("one"))
        sign_in = a_sign_in(publisher)

        for text in ("eyJ.a.b", token(iss="https://evil.example"), token(exp=1), token(client_id="another")):
            refused(text, sign_in)
        assert publisher.asked == []

    def test_one_that_was_altered_anywhere_does_not_count(self):
        whole = token()
        for place in range(0, len(whole), 7):
            altered = whole[:place] + ("A" if whole[place] != "A" else "B") + whole[place + 1 :]
            with pytest.raises(PieceworkError) as told:
                a_sign_in().caller(altered)
            assert not isinstance(told.value, Forbidden | Unavailable)


class TestRolesOfGroups:
    def test_they_are_read(self):
        found = parse_group_roles("ops=operator, people=approver+viewer,ops=viewer,/a/b.c:d=viewer")

        assert found["ops"] == {Role.OPERATOR, Role.VIEWER} and found["people"] == {Role.APPROVER, Role.VIEWER}
        assert "/a/b.c:d" in found

    @pytest.mark.parametrize(
        "text", ["", ",", "ops", "ops=", "=viewer", "ops=king", "ops=agent", "o ps=viewer", "ö=viewer"]
    )
    def test_what_cannot_be_read_stops_the_start(self, text):
        with pytest.raises(SettingsError, match="roles of groups"):
            parse_group_roles(text)
