"""The facilitator and chain clients against servers that refuse, hang and break off; and the CDP credentials."""

import base64
import json
import socket
import ssl
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from local.gateway.held_port import held_port
from piecework.errors import SettingsError, Unavailable
from piecework.worker.backends import chain_of
from piecework.worker.chain.exchange import BODY_LIMIT, Answer, Endpoint, Interrupted, NotSent
from piecework.worker.chain.networks import BASE
from piecework.worker.chain.rpc import Block, ChainUnavailable, Receipt, RpcChain
from piecework.worker.errors import WorkerError
from piecework.worker.payment.cdp import CdpKey, cdp_authenticator, token
from piecework.worker.payment.facilitator import CredentialsMissing, HttpFacilitator, Kinds, SupportedKinds
from piecework.worker.payment.settlement import classify
from piecework.worker.settings import WorkerSettings
from tests.support.http_servers import cut, cut_in_the_middle, drip, hang, serving
from tests.support.quiet import QuietLog
from tests.support.servers import CERTIFICATE, NAME
from tests.support.worker.contracts import SETTINGS
from tests.support.worker.payments import HASH, NONCE, SEEKER, SEPOLIA, WORKER, a_payment, some_terms

TERMS = some_terms()
PAYMENT = a_payment()
OUR_RESOURCE = {
    "url": "https://w.example/hire/execute",
    "description": "HIRE contract ctr_demo01",
    "mimeType": "application/json",
}


def verdict_of(script, **options):
    with serving(script) as server:
        return HttpFacilitator(server.url, **options).verify(PAYMENT, TERMS)


def settled_by(script, seconds=5.0):
    with serving(script) as server:
        return HttpFacilitator(server.url).settle(PAYMENT, TERMS, seconds)


class TestVerify:
    def test_asks_with_our_own_requirements(self):
        with serving((200, {"isValid": True, "payer": SEEKER})) as server:
            HttpFacilitator(f"{server.url}/platform/v2/x402/").verify(PAYMENT, TERMS)

        [(method, path, headers, question)] = server.seen
        assert (method, path) == ("POST", "/platform/v2/x402/verify")
        assert headers["Content-Type"] == "application/json"
        assert question == {
            "x402Version": 2,
            "paymentPayload": {**PAYMENT.document, "resource": OUR_RESOURCE},
            "paymentRequirements": TERMS.entry(2),
        }

    def test_asks_in_the_words_of_the_payments_version(self):
        with serving((200, {"isValid": True})) as server:
            HttpFacilitator(server.url).verify(a_payment(version=1), TERMS)

        assert server.seen[0][3]["x402Version"] == 1
        assert server.seen[0][3]["paymentRequirements"] == TERMS.entry(1)

    @pytest.mark.parametrize("payer", [SEEKER, SEEKER.lower(), None, ""])
    def test_valid(self, payer):
        assert verdict_of((200, {"isValid": True, "payer": payer})).is_valid

    def test_another_payer_is_invalid_and_worth_an_alarm(self):
        verdict = verdict_of((200, {"isValid": True, "payer": WORKER}))

        assert (verdict.is_valid, verdict.reason, verdict.payer_differs) == (False, "payer_mismatch", True)

    @pytest.mark.parametrize("status", [200, 400, 402, 500])
    def test_a_refusal_counts_whatever_its_status(self, status):
        verdict = verdict_of((status, {"isValid": False, "invalidReason": "insufficient_funds", "payer": SEEKER}))

        assert (verdict.is_valid, verdict.reason) == (False, "insufficient_funds")

    @pytest.mark.parametrize("reason", [None, 5, "", "two words", "x" * 101, "<b>"])
    def test_a_reason_that_is_no_word_is_not_passed_on(self, reason):
        assert verdict_of((200, {"isValid": False, "invalidReason": reason})).reason == "unnamed_reason"

    @pytest.mark.parametrize(
        "script",
        [
            (500, {"error": "no"}),
            (200, b"<html>"),
            (200, b""),
            (200, []),
            (200, {"isValid": "true"}),
            (401, {}),
            (307, {}),
            (200, b" " * (BODY_LIMIT + 1)),
            cut,
            cut_in_the_middle,
        ],
    )
    def test_no_verdict_is_unavailable(self, script):
        with pytest.raises(WorkerError) as caught:
            verdict_of(script)

        assert (caught.value.code, caught.value.status) == ("PAYMENT_PROVIDER_UNAVAILABLE", 503)
        assert caught.value.headers == {"Retry-After": "5"}
        assert caught.value.retryable

    @pytest.mark.parametrize("script", [hang, drip])
    def test_is_bounded_in_time(self, script):
        began = time.monotonic()

        with pytest.raises(WorkerError):
            verdict_of(script, verify_seconds=0.3)

        assert time.monotonic() - began < 20  # the server is silent for 30


class TestSettle:
    @pytest.mark.parametrize(
        ("status", "document"),
        [
            (200, {"success": True, "transaction": HASH}),
            (500, {"success": False, "errorReason": "settlement_pending", "transaction": HASH}),
            (202, {"success": False, "paymentId": "p-1"}),
        ],
    )
    def test_gives_status_and_body_as_they_are(self, status, document):
        assert settled_by((status, document)) == Answer(status, document)

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"success":true', b"\xff"])
    def test_garbage_is_an_answer_without_a_document(self, body):
        assert settled_by((200, body)) == Answer(200, None)

    @pytest.mark.parametrize(
        "beside",
        ['"extra":1,"extra":2', '"took":NaN', '"took":1e999', '"note":"cut \\ud83c"', '"note":"a\tb"', '"note":"\xff"'],
    )
    def test_what_nobody_reads_in_an_answer_does_no_harm(self, beside):
        body = f'{{"success":true,"transaction":"{HASH}","network":"eip155:8453",{beside}}}'.encode("latin-1")
        for raw in (body, b"\xef\xbb\xbf" + body):
            outcome = classify(settled_by((200, raw)), PAYMENT, TERMS, first=True)

            assert type(outcome).__name__ == "Paid"

    @pytest.mark.parametrize(
        "twice",
        [
            '"success":true,"success":false',
            '"success":true,"network":"eip155:8453","payer":"0x1","payer":null',
            '"success":true,"network":"eip155:8453","network":"eip155:1"',
        ],
    )
    def test_a_member_that_says_two_things_decides_nothing(self, twice):
        body = f'{{"transaction":"{HASH}",{twice}}}'.encode()
        outcome = classify(settled_by((200, body)), PAYMENT, TERMS, first=True)

        assert type(outcome).__name__ == "Unknown"

    def test_a_redirect_is_not_followed(self):
        with serving((307, {})) as server:
            assert HttpFacilitator(server.url).settle(PAYMENT, TERMS, 5) == Answer(307, {})

        assert len(server.seen) == 1

    @pytest.mark.parametrize("script", [hang, drip])
    def test_no_answer_in_time_is_an_interruption(self, script):
        assert settled_by(script, 0.3) == Interrupted("TimeoutError")

    @pytest.mark.parametrize("script", [cut, cut_in_the_middle, (200, b" " * (BODY_LIMIT + 1))])
    def test_an_answer_that_breaks_off_is_an_interruption(self, script):
        assert isinstance(settled_by(script), Interrupted)

    def test_a_refused_connection_is_not_sent(self):
        with held_port() as closed:
            settled = HttpFacilitator(f"http://127.0.0.1:{closed}").settle(PAYMENT, TERMS, 5)

        assert settled == NotSent("ConnectionRefusedError")

    def test_an_unknown_name_is_not_sent(self):
        settled = HttpFacilitator(f"https://{'a' * 64}.invalid").settle(PAYMENT, TERMS, 5)  # fails before any look-up

        assert isinstance(settled, NotSent)

    def test_a_wrong_certificate_is_not_sent(self):
        with serving((200, {}), secure=True) as server:
            settled = HttpFacilitator(server.url).settle(PAYMENT, TERMS, 5)

        assert settled == NotSent("SSLCertVerificationError")
        assert server.seen == []

    def test_a_server_that_never_finishes_tls_is_not_sent(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            endpoint = Endpoint(f"https://127.0.0.1:{silent.getsockname()[1]}", connect_seconds=0.2)

            assert isinstance(endpoint.exchange("POST", "/settle", {}, {}, 5), NotSent)

    def test_missing_credentials_are_not_sent(self):
        def authenticate(method, url):
            raise CredentialsMissing("none")

        with serving((200, {})) as server:
            settled = HttpFacilitator(server.url, authenticate).settle(PAYMENT, TERMS, 5)

        assert settled == NotSent("CredentialsMissing")
        assert server.seen == []

    def test_speaks_tls_to_a_certificate_that_it_trusts(self):
        trusting = ssl.create_default_context(cafile=CERTIFICATE)
        trusting.check_hostname = False  # the test certificate names evidence.test, and names cannot be resolved here
        with serving((200, {"success": True}), secure=True) as server:
            settled = HttpFacilitator(server.url, tls=trusting).settle(PAYMENT, TERMS, 5)

        assert settled == Answer(200, {"success": True})
        assert NAME == "evidence.test"

    def test_proxies_of_the_environment_are_not_used(self, monkeypatch):
        with held_port() as closed:
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed}")

            assert settled_by((200, {"success": True})) == Answer(200, {"success": True})

    @pytest.mark.parametrize("url", ["http://facilitator.example", "ftp://127.0.0.1", "facilitator", ""])
    def test_a_facilitator_is_spoken_to_in_secret(self, url):
        with pytest.raises(SettingsError):
            HttpFacilitator(url)


KINDS = {"kinds": [{"x402Version": 2, "scheme": "exact", "network": "eip155:8453"}, 5, {"scheme": "exact"}]}


class TestSupported:
    def test_reads_what_is_settled(self):
        with serving((200, KINDS)) as server:
            kinds = HttpFacilitator(server.url).supported()

        assert kinds.serves(BASE)
        assert not kinds.serves(BASE, 1)
        assert not kinds.serves(SEPOLIA)
        assert server.seen[0][:2] == ("GET", "/supported")

    @pytest.mark.parametrize("script", [(500, {}), (200, {"kinds": {}}), (200, b"garbage"), cut])
    def test_no_list_is_unavailable(self, script):
        with serving(script) as server, pytest.raises(WorkerError) as caught:
            HttpFacilitator(server.url).supported()

        assert caught.value.code == "PAYMENT_PROVIDER_UNAVAILABLE"

    def test_is_asked_once_an_hour(self):
        now = [0.0]
        with serving((200, KINDS)) as server:
            known = SupportedKinds(HttpFacilitator(server.url), lambda: now[0])
            for at in (0.0, 3_600.0, 3_601.0):
                now[0] = at
                known.check(BASE)
            assert not known.serves(BASE, 1)

        assert len(server.seen) == 2

    def test_a_network_that_is_not_settled_is_unavailable_until_it_is(self):
        with serving((200, {"kinds": []})) as server:
            known = SupportedKinds(HttpFacilitator(server.url))
            with pytest.raises(WorkerError) as caught:
                known.check(BASE)
            server.script = (200, KINDS)
            known.check(BASE)

        assert caught.value.status == 503
        assert Kinds(frozenset()).serves(BASE) is False


def sees_base_through(url):
    """A worker's settings with this node."""
    return WorkerSettings.from_env({**SETTINGS, "BASE_RPC_URL": url})


class TestChainClient:
    def chain_of(self, result):
        return serving((200, {"jsonrpc": "2.0", "id": 1, "result": result}))

    def test_reads_the_latest_block(self):
        with self.chain_of({"number": "0x10", "timestamp": "0x20"}) as server:
            assert RpcChain(server.url).latest() == Block(16, 32)

        assert server.seen[0][3] == {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "eth_getBlockByNumber",
            "params": ["latest", False],
        }

    def test_a_url_that_is_a_secret_is_read_with_each_call_so_that_it_may_be_rotated(self):
        with self.chain_of("0x1") as first, self.chain_of("0x0") as second:
            urls = iter([f"{first.url}/old-key\n", f"{second.url}/new-key"])
            chain = RpcChain(lambda: next(urls))

            assert chain.nonce_spent(BASE.usdc, SEEKER, NONCE, 18) is True
            assert chain.nonce_spent(BASE.usdc, SEEKER, NONCE, 18) is False

    @pytest.mark.parametrize("text", ["", "http://node.example", "no url"])
    def test_a_secret_that_is_no_url_says_nothing_either_way(self, text):
        with pytest.raises(ChainUnavailable):
            RpcChain(lambda: text).latest()

    def test_a_secret_that_is_out_of_reach_says_nothing_either_way(self):
        def unreachable():
            raise Unavailable("a secret is out of reach; try again")

        with pytest.raises(ChainUnavailable):
            RpcChain(unreachable).latest()

    def test_a_node_of_another_chain_is_no_witness_although_it_answers(self):
        log = QuietLog()
        with serving((200, {"jsonrpc": "2.0", "id": 1, "result": hex(84532)})) as server:
            chain = chain_of(sees_base_through(server.url), log.warning)(BASE)
            for _ in range(2):  # and it is asked again, since an operator may mend it
                with pytest.raises(ChainUnavailable):
                    chain.nonce_spent(BASE.usdc, SEEKER, NONCE, 18)

        assert [call[3]["method"] for call in server.seen] == ["eth_chainId"] * 2
        assert log.lines == [("outgoing_call_failed", {"to": "node", "reason": "another_chain"})] * 2

    def test_a_node_says_once_of_which_chain_it_is(self):
        with serving((200, {"jsonrpc": "2.0", "id": 1, "result": hex(8453)})) as server:
            chain = chain_of(sees_base_through(server.url))(BASE)
            assert chain.nonce_spent(BASE.usdc, SEEKER, NONCE, 18) and chain.nonce_spent(BASE.usdc, SEEKER, NONCE, 18)

        assert [call[3]["method"] for call in server.seen] == ["eth_chainId", "eth_call", "eth_call"]

    def test_keeps_the_path_and_key_of_the_nodes_url(self):
        with self.chain_of({"number": "0x1", "timestamp": "0x1"}) as server:
            RpcChain(f"{server.url}/v2/rpc?key=k").latest()

        assert server.seen[0][1] == "/v2/rpc?key=k"

    def test_asks_for_the_state_of_a_nonce(self):
        with self.chain_of("0x" + "0" * 63 + "1") as server:
            assert RpcChain(server.url).nonce_spent(BASE.usdc, SEEKER, NONCE, 18)

        call, block = server.seen[0][3]["params"]
        assert block == "0x12"
        assert call == {
            "to": BASE.usdc,
            "data": "0xe94a0102" + "0" * 24 + SEEKER[2:].lower() + NONCE[2:],
        }

    def test_a_transaction_outside_any_block_has_no_receipt(self):
        for result in (None, {"blockNumber": None, "status": "0x1", "logs": []}):
            with self.chain_of(result) as server:
                assert RpcChain(server.url).receipt(HASH) is None

    @pytest.mark.parametrize(
        ("said", "index"),
        [({"transactionIndex": "0x1f"}, 31), ({"transactionIndex": "0x0"}, 0), ({}, None)]
        + [({"transactionIndex": wrong}, None) for wrong in (None, 3, "3", "0x", "0x" + "f" * 64, [])],
    )
    def test_a_receipt_has_its_place_in_the_block_and_counts_without_it(self, said, index):
        with self.chain_of({"blockNumber": "0x12", "status": "0x1", "logs": [], **said}) as server:
            assert RpcChain(server.url).receipt(HASH) == Receipt(True, (), 18, index)

    def test_logs_that_were_taken_back_do_not_count(self):
        log = {"address": "0xA", "topics": ["0xB"], "data": "0x", "transactionHash": "0xC", "removed": True}
        with self.chain_of([log]) as server:
            assert RpcChain(server.url).nonce_logs(BASE.usdc, SEEKER, NONCE, 1, 2) == []

        wanted = server.seen[0][3]["params"][0]
        assert (wanted["fromBlock"], wanted["toBlock"], len(wanted["topics"])) == ("0x1", "0x2", 3)

    @pytest.mark.parametrize(
        "document",
        [
            {"error": {"code": -32000}},
            {"result": None},
            {"result": []},
            {"result": {"number": 5, "timestamp": "0x1"}},
            {"result": {"number": "0x", "timestamp": "0x1"}},
            {"result": {"number": "0x1", "timestamp": "0x1"}, "error": {"code": 1}},
            {"result": {"number": "0x1", "timestamp": "0x" + "f" * 64}},
            {"result": {"number": "0x" + "f" * 64, "timestamp": "0x1"}},
            {},
            [],
        ],
    )
    def test_a_node_that_makes_no_sense_says_nothing(self, document):
        with serving((200, document)) as server, pytest.raises(ChainUnavailable):
            RpcChain(server.url).latest()

    @pytest.mark.parametrize("result", ["0x", "", None, {}, "1"])
    def test_a_state_that_makes_no_sense_says_nothing(self, result):
        with self.chain_of(result) as server, pytest.raises(ChainUnavailable):
            RpcChain(server.url).nonce_spent(BASE.usdc, SEEKER, NONCE, 18)

    @pytest.mark.parametrize(
        "result",
        [
            *({}, [5], [{"topics": None}], [{"topics": [5]}]),
            [{"address": "0xA", "topics": ["0xB"], "data": "0x", "transactionHash": "0x" + "c" * 63}],
            [{"address": "0xA", "topics": ["0xB"], "data": "0x", "transactionHash": "0x" + "c" * 1_000}],
        ],
    )
    def test_logs_that_make_no_sense_say_nothing(self, result):
        with self.chain_of(result) as server, pytest.raises(ChainUnavailable):
            RpcChain(server.url).nonce_logs(BASE.usdc, SEEKER, NONCE, 1, 2)

    def test_a_silent_node_says_nothing(self):
        with serving(hang) as server, pytest.raises(ChainUnavailable):
            RpcChain(server.url, seconds=0.2).latest()


ED25519 = ed25519.Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
P256 = ec.derive_private_key(7, ec.SECP256R1())
URL = "https://api.cdp.coinbase.com/platform/v2/x402/settle"


def pem(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def ed25519_secret():
    public = ED25519.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(b"\x07" * 32 + public).decode()


class TestCdpCredentials:
    @pytest.mark.parametrize(
        ("secret", "public", "algorithm"),
        [
            (ed25519_secret(), ED25519.public_key(), "EdDSA"),
            (pem(ED25519), ED25519.public_key(), "EdDSA"),
            (pem(P256), P256.public_key(), "ES256"),
        ],
    )
    def test_a_token_is_for_one_method_and_address(self, secret, public, algorithm):
        now = int(time.time())
        made = token(CdpKey("organizations/o/apiKeys/k", secret), "POST", URL, now)

        claims = jwt.decode(made, public, algorithms=[algorithm])
        assert claims == {
            "sub": "organizations/o/apiKeys/k",
            "iss": "cdp",
            "iat": now,
            "nbf": now,
            "exp": now + 120,
            "uris": ["POST api.cdp.coinbase.com/platform/v2/x402/settle"],
        }
        header = jwt.get_unverified_header(made)
        assert (header["kid"], header["alg"], header["typ"]) == ("organizations/o/apiKeys/k", algorithm, "JWT")
        assert len(header["nonce"]) == 32

    @pytest.mark.parametrize("name", ["id", "name"])
    def test_both_forms_of_the_key_file_are_read_for_each_request(self, name):
        texts = []
        authenticate = cdp_authenticator(lambda: texts[-1])
        for key in ("k1", "k2"):
            texts.append(json.dumps({name: key, "privateKey": ed25519_secret()}))
            made = authenticate("GET", URL)["Authorization"].removeprefix("Bearer ")
            assert jwt.get_unverified_header(made)["kid"] == key

    @pytest.mark.parametrize(
        "text",
        ["", "not json", "[]", "{}", '{"id":"k"}', '{"id":"k","privateKey":5}', '{"id":"k","privateKey":"@@"}',
         '{"id":"k","privateKey":"YWJj"}', '{"id":"k","privateKey":"-----BEGIN PRIVATE KEY-----"}',
         json.dumps({"id": "k", "privateKey": pem(ec.derive_private_key(7, ec.SECP384R1()))})],
    )  # fmt: skip
    def test_a_secret_that_is_no_key_is_missing_and_is_not_shown(self, text):
        with pytest.raises(CredentialsMissing) as caught:
            cdp_authenticator(lambda: text)("POST", URL)

        assert not text or text not in str(caught.value)

    def test_a_secret_that_cannot_be_read_is_missing(self):
        def unreadable():
            raise Unavailable("throttled")

        with pytest.raises(CredentialsMissing):
            cdp_authenticator(unreadable)("POST", URL)

    def test_a_key_shows_its_secret_nowhere(self):
        assert "YWJj" not in repr(CdpKey("k", "YWJj"))

    def test_the_facilitator_client_sends_the_token(self):
        text = json.dumps({"id": "k", "privateKey": ed25519_secret()})
        with serving((200, {"success": True})) as server:
            HttpFacilitator(server.url, cdp_authenticator(lambda: text)).settle(PAYMENT, TERMS, 5)

        made = server.seen[0][2]["Authorization"].removeprefix("Bearer ")
        claims = jwt.decode(made, ED25519.public_key(), algorithms=["EdDSA"])
        assert claims["uris"] == [f"POST {server.url.removeprefix('http://')}/settle"]
