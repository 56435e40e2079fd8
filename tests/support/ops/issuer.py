"""An OpenID Connect issuer: its keys, its tokens, and what it publishes. Tokens are written by PyJWT, not by us."""

import base64
import json
import time
from functools import cache

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from piecework.edge.roles import Role
from piecework.errors import Unavailable
from piecework.ops.people.claims import Expected
from piecework.ops.people.issuer import Issuer
from piecework.ops.people.sign_in import SignIn

URL = "https://issuer.example/pool"
CLIENT = "console-client"
NOW = 1_800_000_000.0
GROUPS = {"ops": frozenset({Role.OPERATOR}), "people": frozenset({Role.APPROVER, Role.VIEWER})}
EXPECTED = Expected(URL, CLIENT)
COGNITO = Expected(URL, CLIENT, groups_claim="cognito:groups", is_cognito=True)
KEYS_AT = f"{URL}/keys"
DESCRIBED_AT = f"{URL}/.well-known/openid-configuration"
DESCRIBED = {
    "issuer": URL,
    "authorization_endpoint": f"{URL}/authorize",
    "token_endpoint": "https://tokens.example/token",
    "jwks_uri": KEYS_AT,
    "end_session_endpoint": f"{URL}/logout",
}
CLAIMS = {
    "iss": URL,
    "sub": "7b5c8a1e",
    "aud": CLIENT,
    "client_id": CLIENT,
    "exp": int(NOW) + 600,
    "iat": int(NOW),
    "groups": ["ops"],
    "scope": "openid",
}
OF_COGNITO = {
    **{name: value for name, value in CLAIMS.items() if name not in ("aud", "groups")},
    "token_use": "access",
    "cognito:groups": ["ops"],
}


def private_key(kid, algorithm="RS256", bits=2048):
    """The private key of a name: made once for all tests."""
    return _made(kid, algorithm, bits)


@cache
def _made(kid, algorithm, bits):
    if algorithm.startswith("RS"):
        return rsa.generate_private_key(65537, bits)
    return ec.generate_private_key(ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1())


def published(kid, algorithm="RS256", bits=2048, **more):
    """A key as a set shows it."""
    made = jwt.algorithms.get_default_algorithms()[algorithm]
    shown = made.to_jwk(private_key(kid, algorithm, bits).public_key(), as_dict=True)
    return {key: value for key, value in shown.items() if key != "key_ops"} | {"kid": kid, "use": "sig", **more}


def token(kid="one", algorithm="RS256", *, headers=None, without=(), claims=CLAIMS, signer=None, **more):
    """A signed token; `more` replaces claims."""
    body = {name: value for name, value in {**claims, **more}.items() if name not in without}
    return jwt.encode(body, signer or private_key(kid, algorithm), algorithm, headers={"kid": kid, **(headers or {})})


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_raw(header, payload, kid="one"):
    """A token whose parts are exactly these bytes, signed by RS256."""
    text = f"{b64(header)}.{b64(payload)}"
    made = jwt.algorithms.get_default_algorithms()["RS256"]
    return f"{text}.{b64(made.sign(text.encode(), private_key(kid)))}"


class Publisher:
    """What an issuer answers, and how often it was asked; `is_down` makes it unreachable."""

    def __init__(self, *keys, described=DESCRIBED):
        self.pages = {DESCRIBED_AT: described, KEYS_AT: {"keys": list(keys)}}
        self.is_down, self.asked = False, []

    def publish(self, *keys):
        self.pages[KEYS_AT] = {"keys": list(keys)}

    def __call__(self, url):
        self.asked.append(url)
        if self.is_down or url not in self.pages:
            raise Unavailable("down")
        page = self.pages[url]
        return page if isinstance(page, bytes) else json.dumps(page).encode()


class Moment:
    """A clock that stands until it is moved, in seconds since 1970."""

    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


def a_sign_in(publisher=None, *, expected=EXPECTED, groups=GROUPS, clock=None, warned=None):
    """Sign-in over a publisher, by default one with the key `one`."""
    clock = clock or Moment()
    warn = (lambda event, **fields: warned.append((event, fields))) if warned is not None else lambda *_, **__: None
    issuer = Issuer(expected.issuer, publisher or Publisher(published("one")), clock, warn)
    return SignIn(issuer, lambda: expected, groups, now=clock)


def now():
    return int(time.time())
