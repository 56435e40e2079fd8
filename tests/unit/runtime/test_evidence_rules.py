"""What the kernel refuses in evidence is dropped or shortened before it can cost the answer."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.extend.executors import Evidence
from piecework.jsons import canonical
from piecework.runtime.execute.evidence import SHORTENED, TOTAL_BYTES, admit, admit_refs, holds_media
from piecework.runtime.execute.messages import EvidencePolicy

POLICY = EvidencePolicy()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\x00" * 60).decode()


def text(content: str, mime: str = "text/plain") -> Evidence:
    return Evidence(mime, content)


def contents(admitted: list[bytes]) -> list[str]:
    return [json.loads(raw)["content"] for raw in admitted]


@pytest.mark.parametrize(
    "mime", ["text/plain; charset=utf-8", "TEXT/PLAIN", "image/png", "audio/ogg", "text/html", "", "application/xml"]
)
def test_mimes_must_be_members_of_the_list_exactly(mime):
    assert admit([text("x", mime)], POLICY) == []


def test_media_types_are_dropped_even_when_listed():
    assert admit([text("x", "image/png")], EvidencePolicy(inline_mime_allowlist=["image/png"])) == []


def test_an_empty_list_admits_nothing():
    assert admit([text("x")], EvidencePolicy(inline_mime_allowlist=[])) == []


@pytest.mark.parametrize(("size", "kept"), [(65_536, 65_536), (65_537, 65_536)])
def test_text_over_the_limit_is_shortened_and_says_so(size, kept):
    (content,) = contents(admit([text("x" * size)], POLICY))

    assert len(content) == kept and content.endswith(SHORTENED) is (size > kept)


def test_bytes_are_counted_not_characters():
    (content,) = contents(admit([text("😀" * 16_385)], POLICY))

    assert len(content.encode()) <= 65_536 and "�" not in content


def test_a_smaller_contract_limit_counts():
    (content,) = contents(admit([text("x" * 100)], EvidencePolicy(max_inline_evidence_bytes=50)))

    assert len(content) == 50
    assert admit([text("x" * 100)], EvidencePolicy(max_inline_evidence_bytes=3)) == []


@pytest.mark.parametrize(("depth", "kept"), [(127, 1), (128, 0), (140, 0), (141, 0)])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_evidence_nests_no_deeper_than_a_kernel_reads(opening, depth, kept):
    inside = "0" if opening != "[" else ""
    content = opening * depth + inside + {"[": "]"}.get(opening, "}") * depth

    assert len(admit([text(content, "application/json")], POLICY)) == kept


@pytest.mark.parametrize("name", ["$serde_json::private::Number", "\\u0024serde_json::private::\\u004eumber"])
def test_json_evidence_with_a_name_that_newer_kernels_take_for_a_number_is_dropped(name):
    assert admit([text(f'[{{"a":{{"{name}":"x"}}}}]', "application/json")], POLICY) == []
    assert len(admit([text(f'{{"a":"{name}"}}', "application/json")], POLICY)) == 1  # a text is not a name


@pytest.mark.parametrize("content", ["1e400", '{"a":1,"a":2}', "{", "NaN", '"\\ud800"', json.dumps("x" * 65_536)])
def test_json_evidence_that_would_not_parse_or_fit_is_dropped(content):
    assert admit([text(content, "application/json")], POLICY) == []


def test_the_whole_evidence_fits_the_kernels_event():
    admitted = admit([text("\x01" * 15_000)] * 3 + [text("small")], POLICY)

    assert [len(content) for content in contents(admitted)] == [15_000, 5]
    assert len(canonical(list(map(json.loads, admitted)))) <= TOTAL_BYTES


@pytest.mark.parametrize(
    "content",
    [
        "see data:image/png;base64,xx",
        "DATA:Audio/ogg",
        PNG,
        f"prefix {PNG} suffix",
        PNG.rstrip("="),
        base64.urlsafe_b64encode(b"\xff\xd8\xff\xfb\xff\xfe" + b"\xff" * 60).decode(),
        base64.b64encode(b"ID3" + b"\x00" * 60).decode(),
        base64.b64encode(b"OggS" + b"\x00" * 60).decode(),
        base64.b64encode(b"fLaC" + b"\x00" * 60).decode(),
        base64.b64encode(b"GIF89a" + b"\x00" * 60).decode(),
        base64.b64encode(b"\x1a\x45\xdf\xa3" + b"\x00" * 60).decode(),
        *(
            base64.b64encode(b"RIFF\x00\x00\x00\x00" + kind + b"\x00" * 60).decode()
            for kind in (b"WAVE", b"WEBP", b"AVI ")
        ),
        base64.b64encode(b"\x00\x00\x00\x18ftypmp42" + b"\x00" * 60).decode(),
    ],
)
def test_embedded_media_is_found(content):
    assert holds_media(content)
    assert admit([text(content)], POLICY) == []


@pytest.mark.parametrize(
    "content",
    ["data:text/plain,hi", PNG[:60], base64.b64encode(b"RIFF1234JUNK" + b"\x00" * 60).decode(), "a" * 5_000, ""],
)
def test_what_only_looks_like_media_stays(content):
    assert not holds_media(content)


@given(st.lists(st.text(max_size=300).map(text), max_size=6))
def test_admitted_evidence_always_fits(items):
    admitted = admit(items, POLICY, 1_000)

    assert len(canonical(list(map(json.loads, admitted)))) <= 1_002


def test_references_are_bounded_by_the_verify_budget_counting_digests():
    refs = [{"digest": "a"}, {"digest": "b"}, {"digest": "a"}, {"digest": "c"}]

    assert admit_refs(refs, 5) == list(map(canonical, refs[:3]))
    assert admit_refs(refs, 3) == [] == admit_refs(refs, 0)
    assert admit_refs(refs, None) == list(map(canonical, refs))
