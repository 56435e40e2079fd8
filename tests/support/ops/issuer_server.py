"""An OpenID Connect issuer over HTTP, as strict as a real one: exact addresses, codes that count once, PKCE.

Who is signed in at it is its `person`; nobody has to type anything, as while a real one still knows the browser.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.ops.issuer import published, token
from tests.support.servers import serving_in_a_thread

CODE_SECONDS = 60


class Issuer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.client, self.back, self.out, self.origin = "console", "", "", ""
        self.person = {"sub": "7b5c8a1e", "groups": ["ops"]}
        self.refuses, self.lasts, self.kid = "", 600, "one"
        self.codes, self.seen, self.stopping = {}, [], threading.Event()

    def serves(self, console):
        """Register the one client: its addresses are compared character by character."""
        self.origin = console
        self.back, self.out = f"{console}/console/signed-in", f"{console}/console/signed-out"

    def signed(self, lasts):
        """An access token of the person that ends in so many seconds, or ended before so many."""
        now = int(time.time())
        claims = {"iss": self.url, "client_id": self.client, "aud": self.client}
        return token(self.kid, iat=now + min(lasts, 0) - 1, exp=now + lasts, **claims, **self.person)

    def handle_error(self, *_):
        """A browser that left."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path, asked = urlsplit(self.path).path, only(urlsplit(self.path).query)
        self.server.seen.append((path, asked))
        answers = {"/.well-known/openid-configuration": self.described, "/keys": self.keys, "/logout": self.out}
        if path == "/authorize":
            self.authorize(asked)
        elif path in answers:
            answers[path](asked)
        else:
            self.say(404, {})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.seen.append((self.path, only(raw)))
        status, body = self.exchanged(only(raw)) if self.path == "/token" else (404, {})
        self.say(status, body, **{"Access-Control-Allow-Origin": self.server.origin})

    def described(self, _):
        at = self.server.url
        named = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        named |= {"end_session_endpoint": "logout"}
        self.say(200, {"issuer": at, **{name: f"{at}/{path}" for name, path in named.items()}})

    def keys(self, _):
        self.say(200, {"keys": [published(self.server.kid)]})

    def authorize(self, asked):
        server = self.server
        exact = {"client_id": server.client, "redirect_uri": server.back, "response_type": "code"}
        if any(asked.get(name) != value for name, value in exact.items()):
            return self.say(400, {"error": "invalid_request"})  # never a redirect to an address that is not registered
        if server.refuses:
            return self.move(server.back, error=server.refuses, state=asked.get("state", ""))
        is_whole = asked.get("code_challenge_method") == "S256" and len(asked.get("code_challenge", "")) == 43
        if not is_whole or "openid" not in asked.get("scope", "").split() or len(asked.get("state", "")) < 22:
            return self.move(server.back, error="invalid_request", state=asked.get("state", ""))
        code = secrets.token_urlsafe(24)
        server.codes[code] = (asked["code_challenge"], time.time() + CODE_SECONDS)
        return self.move(server.back, code=code, state=asked["state"])

    def exchanged(self, asked):
        challenge, ends = self.server.codes.pop(asked.get("code"), ("", 0))  # once, right or wrong
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        made = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        exact = {"client_id": self.server.client, "redirect_uri": self.server.back, "grant_type": "authorization_code"}
        is_whole = all(asked.get(name) == value for name, value in exact.items()) and "client_secret" not in asked
        if not is_whole or time.time() > ends or made != challenge:
            return 400, {"error": "invalid_grant"}
        signed = self.server.signed(self.server.lasts)
        return 200, {"access_token": signed, "token_type": "Bearer", "expires_in": self.server.lasts}

    def out(self, asked):
        if asked.get("client_id") != self.server.client or asked.get("post_logout_redirect_uri") != self.server.out:
            return self.say(400, {"error": "invalid_request"})
        return self.move(self.server.out)

    def move(self, to, **query):
        self.send_response(302)
        self.send_header("Location", f"{to}?{urlencode(query)}" if query else to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def say(self, status, body, **headers):
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


def only(query):
    """The parameters of a query; one that is repeated is none."""
    return {name: values[0] for name, values in parse_qs(query).items() if len(values) == 1}


@contextmanager
def issuing():
    """A running issuer."""
    server = Issuer()
    with serving_in_a_thread(server):
        yield server
