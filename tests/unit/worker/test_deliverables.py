"""Names, types and keys of deliverables."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.extend.executors import Artifact
from piecework.worker.answer.deliverables import UNKNOWN_TYPE, Link, safe_type, store_files
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


def names_of(*given_names):
    """What files of these names are delivered as."""
    artifacts = [Artifact(name, str(place).encode(), "text/plain") for place, name in enumerate(given_names)]
    return [file.name for file in store_files(Shelf(), "deliverables/x", artifacts, QuietLog())]


FORBIDDEN = '/\\<>:"|?*'
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def is_safe(name):
    """Whether every common file system saves a name as it is, and shows it as it is."""
    strange = any(unicodedata.category(each)[0] == "C" and each not in "\u200c\u200d" for each in name)
    fits = 0 < len(name) <= 127 and len(name.encode()) <= 255
    plain = name == unicodedata.normalize("NFC", name) and name[0] not in ". " and name[-1] not in ". "
    return fits and plain and not strange and not set(name) & {*FORBIDDEN, *BIDI} and ".." not in name


@given(st.text(max_size=300))
def test_every_name_becomes_one_that_every_system_can_save(name):
    (found,) = names_of(name)

    assert is_safe(found)
    assert names_of(found) == [found]


@given(
    st.lists(st.sampled_from(["a.txt", "A.TXT", "é.txt", "e\u0301.txt", "", "x" * 200, "字" * 99 + ".pdf"]), max_size=9)
)
def test_no_two_files_of_a_task_have_one_name(given_names):
    found = names_of(*given_names)

    assert len({name.casefold() for name in found}) == len(found) and all(map(is_safe, found))


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("plan.pdf", "plan.pdf"),
        ("../../etc/passwd", "etc_passwd"),
        ("a/b", "a_b"),
        ("a\\b", "a_b"),
        (".env", "env"),
        ("  .. a.txt. ", "a.txt"),
        ("x\0.png", "x_.png"),
        ("photo\u202egnp.exe", "photo_gnp.exe"),
        ("\u202egpj.exe", "gpj.exe"),
        ("__init__.py", "__init__.py"),
        ("_draft.md", "_draft.md"),
        ("-5 °C.csv", "-5 °C.csv"),
        ("???.pdf", "file.pdf"),
        ("\u202e.pdf", "file.pdf"),
        (" .pdf", "file.pdf"),
        ("..env", "env"),
        ("plan..pdf", "plan.pdf"),
        ("a/../b.txt", "a___b.txt"),
        ("a.p/f", "a.p_f"),
        ("", "file"),
        ("…", "…"),
        ("Müller.txt", "Müller.txt"),
        ("Mu\u0308ller.txt", "Müller.txt"),
        ("報告書.pdf", "報告書.pdf"),
        ("отчёт.docx", "отчёт.docx"),
        ("résumé.pdf", "résumé.pdf"),
        ("گزارش\u200cها.pdf", "گزارش\u200cها.pdf"),
        ("🙂.png", "🙂.png"),
        ("a\u00a0b.txt", "a b.txt"),
        ("a\u2028b.txt", "a_b.txt"),
        ('what? "this": <1>|2*.txt', "what_ _this__ _1__2_.txt"),
        ("CON", "CON_"),
        ("nul.txt", "nul_.txt"),
        ("Com1.tar.gz", "Com1_.tar.gz"),
        ("LPT³", "LPT³_"),
        ("console.log", "console.log"),
        ("字" * 200 + ".pdf", "字" * 83 + ".pdf"),
        ("a" * 200 + ".jpeg", "a" * 122 + ".jpeg"),
        ("x." + "e" * 125, "x." + "e" * 125),
    ],
)
def test_a_name_keeps_its_letters_and_its_extension(given_name, kept):
    assert names_of(given_name) == [kept]


def test_names_that_are_taken_are_counted_up_before_their_extension():
    assert names_of("a.txt", "A.TXT", "a.txt") == ["a.txt", "A (2).TXT", "a (3).txt"]
    assert names_of("a", "a") == ["a", "a (2)"]
    assert names_of("x" * 127, "x" * 127)[1] == "x" * 123 + " (2)"
    assert names_of(*["x." + "e" * 125] * 2)[1] == "x." + "e" * 121 + " (2)"
    assert names_of("é.txt", "e\u0301.txt", "É.txt") == ["é.txt", "é (2).txt", "É (3).txt"]
    assert names_of(*["報告書.pdf"] * 2) == ["報告書.pdf", "報告書 (2).pdf"]


@pytest.mark.parametrize("mime", ["text/plain; charset=utf-8", "image/svg+xml", "application/pdf"])
def test_known_types_are_kept(mime):
    assert safe_type(mime) == mime


@pytest.mark.parametrize("mime", ["", "text", "application/x-sh", "text/plain\r\nX-Evil: 1", "text/plain; boundary=x"])
def test_other_types_are_bytes(mime):
    assert safe_type(mime) == UNKNOWN_TYPE


def test_files_are_stored_by_index_and_described_exactly():
    shelf = Shelf()
    artifacts = [Artifact("../a.svg", b"<svg/>", "image/svg+xml"), Artifact("./a.svg", b"", "weird")]

    stored = store_files(shelf, "deliverables/ctr_x/task_y/g1/lease", artifacts, QuietLog())

    assert [file.name for file in stored] == ["a.svg", "a (2).svg"]
    assert [file.key for file in stored] == [f"deliverables/ctr_x/task_y/g1/lease/00{n}" for n in (0, 1)]
    assert stored[0].checksum == "sha256:" + hashlib.sha256(b"<svg/>").hexdigest() and stored[0].size == 6
    assert all(re.match("attachment;", how) for _, _, how in shelf.objects.values())


def header_of(name):
    shelf = Shelf()
    store_files(shelf, "deliverables/x", [Artifact(name, b"", "text/plain")], QuietLog())
    return next(how for _, _, how in shelf.objects.values())


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a (2).txt", "a (2).txt"),
        ("報告書.pdf", "file.pdf"),
        ("報告2026.pdf", "2026.pdf"),
        ("résumé.pdf", "resume.pdf"),
        ("50%.txt", "50_.txt"),
        ("a／b＂c.txt", "a_b_c.txt"),
        ("отчёт.докс", "file"),
    ],
)
def test_a_header_has_the_name_and_a_stand_in_for_programs_that_read_ascii_alone(name, plain):
    header = header_of(name)

    assert header == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    assert header.isascii() and header.isprintable()
