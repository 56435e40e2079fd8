"""Receivers that an operator lists by name: what a list may hold, and what its errors never quote."""

import pytest

from piecework.errors import SettingsError
from piecework.webhooks.deliveries import Delivery
from piecework.webhooks.keys import key_of
from piecework.webhooks.receivers import Receiver, addressed_by, parse_receivers
from tests.support.worker.contracts import SECRET

URL = "https://hooks.example.com/approvals?room=7"


@pytest.mark.parametrize("text", [f"desk={URL} {SECRET}, night=https://n.example:8443/ {SECRET}", None])
def test_a_list_is_read_by_comma_and_by_line(text):
    text = text or f"desk={URL} {SECRET}\r\n  night=https://n.example:8443/   {SECRET}\n\n"

    assert parse_receivers(text) == {
        "desk": Receiver(URL, SECRET),
        "night": Receiver("https://n.example:8443/", SECRET),
    }


def test_an_empty_text_is_an_empty_list():
    assert parse_receivers(" \n") == {}


MISTAKES = {
    f"{URL} {SECRET}": "NAME=URL SECRET",
    f"desk={URL}": "NAME=URL SECRET",
    f"desk={URL} {SECRET} {SECRET}": "NAME=URL SECRET",
    f"a desk={URL} {SECRET}": "NAME=URL SECRET",
    f"{'d' * 65}={URL} {SECRET}": "NAME=URL SECRET",
    f"desk={URL} {SECRET},desk={URL} {SECRET}": "desk is there twice",
    f"desk=http://hooks.example.com/k3y {SECRET}": "desk: webhooks go to https on port 443 or 8443",
    f"desk=https://hooks.example.com:22/k3y {SECRET}": "desk: webhooks go to https on port 443 or 8443",
    f"desk=https://169.254.169.254/k3y {SECRET}": "desk: webhooks go to a full host name",
    f"desk=https://k3y@hooks.example.com/ {SECRET}": "desk: addresses with credentials",
    f"desk=https://hooks.internal/k3y {SECRET}": "desk: webhooks go to a public host name",
    f"desk={URL} k3y": "desk needs a secret",
    f"desk={URL} whsec_c2hvcnQ=": "desk needs a secret",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_and_neither_url_nor_secret_is_quoted(text):
    with pytest.raises(SettingsError) as caught:
        parse_receivers(text)

    assert MISTAKES[text] in caught.value.message
    assert not [part for part in ("k3y", "room", "whsec_M", "c2hvcnQ") if part in caught.value.message]


def test_a_receiver_is_not_shown():
    assert "example" not in repr(parse_receivers(f"desk={URL} {SECRET}"))


def test_a_delivery_gets_the_address_that_its_name_has_now():
    kept = Delivery("e", "n", "", b"{}", name="desk")
    lists = [f"desk={URL} {SECRET}", f"desk=https://b.example/ {SECRET}"]
    addressed = addressed_by(lambda: parse_receivers(lists[0]))

    first = addressed(kept)
    lists.pop(0)

    assert (first.url, first.secret) == (URL, SECRET)
    assert addressed(kept).url == "https://b.example/"


def test_a_name_that_is_not_in_the_list_has_no_address():
    with pytest.raises(SettingsError, match="no webhook is called desk"):
        addressed_by(dict)(Delivery("e", "n", "", b"{}", name="desk"))


@pytest.mark.parametrize("secret", ["", "whsec_", SECRET.removeprefix("whsec_"), SECRET[:-1], "whsec_" + "A" * 88])
def test_a_key_has_24_to_64_bytes_in_base64(secret):
    with pytest.raises(ValueError, match="24 to 64 bytes"):
        key_of(secret)
