"""Fetching from strangers: what is refused before a byte is sent, and how misbehaving servers end."""

import socket
import ssl
import threading
import time
from ipaddress import ip_address

import pytest

from piecework.net.addresses import AddressRefused, is_public, parse_target, resolve_name, vet
from piecework.net.fetching import BodyTooLarge, Fetcher, FetchTimedOut, Unreachable
from piecework.net.lookups import Deadline, look_up
from tests.support.servers import BIG, BODY, CERTIFICATE, NAME, strange_server


def loopback(address):
    return str(address) == "127.0.0.1"


def a_fetcher(**changed):
    settings = {"resolve": lambda host, port: ["127.0.0.1"], "allow": loopback, "timeout_seconds": 20.0}
    return Fetcher(**{**settings, **changed})


@pytest.fixture(scope="module")
def server():
    with strange_server() as running:
        yield running


NOT_PUBLIC = """
    0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255
    192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.9
    224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8
    64:ff9b::127.0.0.1 64:ff9b::169.254.169.254 64:ff9b::10.0.0.1 64:ff9b:1::1 64:ff9b:1::808:808
    2002:7f00:1:: 2002:808:808:: 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 2001:10::1 2001:20::1
    3fff::1 5f00::1 100::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 2606:4700::1%1 fec0::1 ff02::1 ff0e::1 4000::1
"""
PUBLIC = "1.1.1.1 8.8.8.8 100.63.255.255 172.32.0.1 223.255.255.254 2606:4700::1111 64:ff9b::8.8.8.8"


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_an_address_that_is_not_public_is_refused(address):
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC.split())
def test_a_public_address_is_allowed(address):
    assert is_public(ip_address(address))


HOSTILE_URLS = [
    "",
    "evidence.test/x",
    "//evidence.test/x",
    "file:///etc/passwd",
    "ftp://evidence.test/x",
    "gopher://evidence.test:70/x",
    "artifact://reference/sha256:00",
    "inline:0",
    "http:///x",
    "http://user@evidence.test/",
    "http://user:secret@evidence.test/",
    "http://evidence.test@127.0.0.1/",
    "http://evidence.test\\@127.0.0.1/",
    "http://evidence.test/a b",
    "http://evidence.test/\r\nHost: x",
    "http://evidence.test/é",
    "http://１２７.０.０.１/",
    "http://evidence。test/",
    "http://evidence.test:99999/",
    "http://evidence.test:0/",
    "http://evidence.test:port/",
    "http://[::1/",
    "http://[v1.x]/",
    "http://evi%64ence.test/",
    "http://a..b/",
    "http://.test/",
    f"http://{'a' * 64}.test/",
    f"http://evidence.test/{'x' * 5_000}",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://127.0.0.01/",
    "http://1.1.1.1.1/",
    "http://134744072/",
    "http://evidence.0x/",
    "http://8.8.8.8./",
]


@pytest.mark.parametrize("url", HOSTILE_URLS)
def test_a_hostile_url_is_refused_without_asking_the_resolver(url):
    def resolve(host, port):
        raise AssertionError(f"asked for {host}")

    with pytest.raises(AddressRefused):
        Fetcher(resolve=resolve, allow=lambda address: True).get(url)


LITERALS = ["http://127.0.0.1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/", "http://[::ffff:7f00:1]/"]


@pytest.mark.parametrize("url", LITERALS)
def test_an_address_literal_needs_no_resolver_to_be_refused(url):
    with pytest.raises(AddressRefused):
        Fetcher(resolve=lambda host, port: ["8.8.8.8"]).get(url)


def test_one_bad_address_among_good_ones_refuses_the_name():
    target = parse_target("https://evidence.test/")

    with pytest.raises(AddressRefused):
        vet(target, lambda host, port: ["8.8.8.8", "10.0.0.1"], is_public)
    with pytest.raises(AddressRefused):
        vet(target, lambda host, port: [], is_public)
    assert vet(target, lambda host, port: ["8.8.8.8"], is_public) == ["8.8.8.8"]


def test_the_systems_resolver_lists_addresses():
    assert "127.0.0.1" in resolve_name("localhost", 80)


def test_a_plain_answer_comes_back_whole(server):
    fetched = a_fetcher().get(server.url("/ok?a=b"))

    assert (fetched.status, fetched.body) == (200, BODY)
    assert server.seen[-1] == ("/ok?a=b", f"{NAME}:{server.server_port}")


def test_a_chunked_answer_comes_back_whole(server):
    assert a_fetcher().get(server.url("/chunked")).body == BODY


def test_a_name_is_resolved_once_and_its_vetted_address_is_used(server):
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    a_fetcher(resolve=lambda host, port: next(answers)).get(server.url("/ok"))

    assert next(answers) == ["127.0.0.2"]


def test_the_next_address_is_tried_when_one_does_not_answer(server):
    fetcher = a_fetcher(resolve=lambda host, port: ["127.9.9.9", "127.0.0.1"], allow=lambda address: True)

    assert fetcher.get(server.url("/ok")).status == 200


def test_a_redirect_is_an_answer_and_is_not_followed(server):
    fetched = a_fetcher().get(server.url("/redirect"))

    assert (fetched.status, fetched.headers["location"]) == (302, "/ok")
    assert server.seen[-1][0] == "/redirect"


def test_proxies_of_the_environment_are_not_used(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    assert a_fetcher().get(server.url("/ok")).status == 200


def test_a_body_can_be_posted_with_headers(server):
    fetched = a_fetcher().request("POST", server.url("/hook"), b"{}", {"webhook-id": "msg_1"})

    assert (fetched.status, fetched.body) == (202, b"taken")
    assert server.seen[-1] == ("/hook", "{}")


@pytest.mark.parametrize("path", ["/big", "/endless"])
def test_an_answer_over_the_limit_is_cut_off(server, path):
    with pytest.raises(BodyTooLarge):
        a_fetcher(body_limit=BIG - 1).get(server.url(path))


def test_an_answer_of_exactly_the_limit_is_taken(server):
    assert len(a_fetcher(body_limit=BIG).get(server.url("/big")).body) == BIG


@pytest.mark.parametrize("path", ["/hang", "/drip", "/drip-headers"])
def test_a_slow_answer_ends_at_the_deadline(server, path):
    started = time.monotonic()

    with pytest.raises(FetchTimedOut):
        a_fetcher(timeout_seconds=0.3).get(server.url(path))

    assert time.monotonic() - started < 20


@pytest.mark.parametrize("path", ["/truncated", "/nonsense"])
def test_a_broken_answer_is_unreachable(server, path):
    with pytest.raises(Unreachable):
        a_fetcher().get(server.url(path))


def test_a_refused_connection_is_unreachable():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(Unreachable):
            a_fetcher().get(f"http://evidence.test:{port}/")


def test_an_unknown_name_is_unreachable():
    def resolve(host, port):
        raise socket.gaierror("unknown")

    with pytest.raises(Unreachable):
        a_fetcher(resolve=resolve).get("http://evidence.test/")


def test_a_slow_resolver_uses_up_the_time():
    def resolve(host, port):
        time.sleep(0.15)
        return ["127.0.0.1"]

    with pytest.raises(FetchTimedOut):
        a_fetcher(resolve=resolve, timeout_seconds=0.1).get("http://evidence.test/")


def trusting():
    return ssl.create_default_context(cafile=str(CERTIFICATE))


def test_tls_checks_the_name_and_not_the_address():
    with strange_server(secure=True) as server:
        fetched = a_fetcher(tls=trusting()).get(server.url("/ok"))

        assert fetched.body == BODY


def test_an_answer_that_ends_with_the_connection_must_end_properly():
    with strange_server() as plain, strange_server(secure=True) as rude:
        assert a_fetcher().get(plain.url("/close-delimited")).body == BODY

        with pytest.raises(Unreachable):  # no closing message, so the rest may have been cut off
            a_fetcher(tls=trusting()).get(rude.url("/close-delimited"))


@pytest.mark.parametrize(("host", "tls"), [("other.test", "trusting"), (NAME, "default"), ("127.0.0.1", "trusting")])
def test_a_wrong_certificate_is_unreachable(host, tls):
    with strange_server(secure=True) as server:
        context = trusting() if tls == "trusting" else None

        with pytest.raises(Unreachable):
            a_fetcher(tls=context).get(server.url("/ok", host))


def test_a_silent_handshake_ends_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://evidence.test:{silent.getsockname()[1]}/"

        with pytest.raises(FetchTimedOut):
            a_fetcher(timeout_seconds=0.2, tls=trusting()).get(url)


def test_no_thread_outlives_its_request(server):
    before = set(threading.enumerate())

    a_fetcher(timeout_seconds=30).get(server.url("/ok"))

    assert {thread for thread in threading.enumerate() if thread not in before and not is_serving(thread)} == set()


def is_serving(thread):
    return "process_request_thread" in thread.name


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_look_up_that_ends_without_an_answer_is_no_name_without_addresses():
    def leaves(host, port):
        raise SystemExit

    with pytest.raises(OSError, match="without an answer"):
        look_up(leaves, "leaves.example", 443, Deadline(5))
