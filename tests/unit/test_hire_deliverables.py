"""Names, types and keys of deliverables."""

import hashlib
import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.executors import Artifact
from piecework.hire.deliverables import (
    SAFE_NAME,
    UNKNOWN_TYPE,
    Link,
    disposition,
    safe_name,
    safe_type,
    store_files,
    unique_name,
)
from tests.support.quiet import QuietLog


@dataclass
class Shelf:
    objects: dict[str, tuple[bytes, str, str]] = field(default_factory=dict)

    def put(self, key, data, sha256, mime, disposition):
        assert hashlib.sha256(data).digest() == sha256
        self.objects[key] = (data, mime, disposition)

    def link(self, key):
        return Link(f"https://files.test/{key}", 0)

    def exists(self, key):
        return key in self.objects


@given(st.text(max_size=300))
def test_every_name_becomes_a_safe_one(name):
    found = safe_name(name)

    assert SAFE_NAME.fullmatch(found) and ".." not in found and len(found) <= 127
    assert safe_name(found) == found


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("plan.pdf", "plan.pdf"),
        ("../../etc/passwd", "etc_passwd"),
        ("a/b", "a_b"),
        ("a\\b", "a_b"),
        (".env", "env"),
        ("x\0.png", "x_.png"),
        ("photo\u202egnp.exe", "photo_gnp.exe"),
        ("", "file"),
        ("…", "file"),
        ("Müller.txt", "M_ller.txt"),
    ],
)
def test_a_name_keeps_what_is_safe_of_it(given_name, kept):
    assert safe_name(given_name) == kept


def test_names_that_are_taken_are_counted_up_before_their_extension():
    assert unique_name("a.txt", set()) == "a.txt"
    assert unique_name("A.txt", {"a.txt"}) == "A (2).txt"
    assert unique_name("a.txt", {"a.txt", "a (2).txt"}) == "a (3).txt"
    assert unique_name("a", {"a"}) == "a (2)"
    assert len(unique_name("x" * 127, {"x" * 127})) == 127


@pytest.mark.parametrize("mime", ["text/plain; charset=utf-8", "image/svg+xml", "application/pdf"])
def test_known_types_are_kept(mime):
    assert safe_type(mime) == mime


@pytest.mark.parametrize("mime", ["", "text", "application/x-sh", "text/plain\r\nX-Evil: 1", "text/plain; boundary=x"])
def test_other_types_are_bytes(mime):
    assert safe_type(mime) == UNKNOWN_TYPE


def test_files_are_stored_by_index_and_described_exactly():
    shelf = Shelf()
    artifacts = [Artifact("../a.svg", b"<svg/>", "image/svg+xml"), Artifact("_a.svg", b"", "weird")]

    stored = store_files(shelf, "deliverables/ctr_x/task_y/g1/lease", artifacts, QuietLog())

    assert [file.name for file in stored] == ["a.svg", "a (2).svg"]
    assert [file.key for file in stored] == [f"deliverables/ctr_x/task_y/g1/lease/00{n}" for n in (0, 1)]
    assert stored[0].checksum == "sha256:" + hashlib.sha256(b"<svg/>").hexdigest() and stored[0].size == 6
    assert all(re.match("attachment;", how) for _, _, how in shelf.objects.values())


def test_a_header_holds_nothing_but_plain_characters():
    assert disposition("a (2).txt") == "attachment; filename*=UTF-8''a%20%282%29.txt"
