"""Runtime specification, cases 19-23: a candidate that the kernel records, whatever its executor made."""

import base64
import hashlib
import json
import re

import httpx
import pytest

from piecework.jsons import canonical as canonical_form
from tests.support.runtime.requests import a_scripted_request, an_execute_request, error_of, execute, executed
from tests.support.runtime.verification import canonical

LIMIT = 65_536
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\x00" * 60).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + b"JFIF" * 20).decode()
ID3_URL_SAFE = base64.urlsafe_b64encode(b"ID3\x04\x00" + b"\xfb\xff" * 40).decode().rstrip("=")


def inline(runtime, *evidence, mimes=None):
    return executed(runtime, a_scripted_request({"evidence": list(evidence)}, mimes=mimes))["evidence_inline"]


def of_size(size, character="x"):
    """An output whose canonical JSON has that many bytes."""
    room = size - len(canonical({"a": ""}))
    wide = len(character.encode())
    return {"a": character * (room // wide) + "x" * (room % wide)}


@pytest.mark.parametrize("prompt", ["x" * 70_000, "é" * 40_000, "😀" * 40_000, "\u2028" * 30_000], ids=range(4))
def test_candidate_size_limit(runtime, prompt):
    answer = execute(runtime, an_execute_request("swarm", {"prompt": prompt}))

    assert answer.status_code in (200, 400), answer.text
    assert answer.status_code == 400 or len(canonical(answer.json()["candidate_output"])) <= LIMIT


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize("character", ["x", "é", "☕", "😀"])
def test_candidate_size_limit_to_the_byte(runtime, character):
    fitting, too_large = of_size(LIMIT, character), of_size(LIMIT + 1, character)
    assert len(canonical(fitting)) == LIMIT

    assert executed(runtime, a_scripted_request({"output": fitting}))["candidate_output"] == fitting
    refused = execute(runtime, a_scripted_request({"output": too_large}))
    assert refused.status_code == 400
    assert str(LIMIT) in error_of(refused)["error"]


@pytest.mark.inside("tells the executor what to do")
def test_candidate_size_limit_counts_escapes_and_doubles_as_written(runtime):
    fitting = {"a": "\n" * 30_000, "b": [1e-7] * 1_000}
    fitting["c"] = "x" * (LIMIT - len(canonical_form({**fitting, "c": ""})))

    assert executed(runtime, a_scripted_request({"output": fitting}))["candidate_output"] == fitting
    fitting["c"] += "x"
    assert execute(runtime, a_scripted_request({"output": fitting})).status_code == 400


@pytest.mark.inside("knows what the executor echo answers")
def test_candidate_size_limit_holds_for_a_long_prompt(runtime):
    output = executed(runtime, an_execute_request("swarm", {"prompt": "😀" * 40_000}))["candidate_output"]

    assert len(canonical(output)) <= LIMIT
    assert output["answer"].startswith("default::😀")


@pytest.mark.parametrize("prompt", ["x" * 60_000, "😀" * 15_000, '"' * 30_000], ids=range(3))
def test_inline_limits(runtime, prompt):
    body = executed(runtime, an_execute_request("swarm", {"prompt": prompt}))

    assert all(len(item["content"].encode()) <= LIMIT for item in body["evidence_inline"])
    assert len(canonical([body["evidence_inline"], body["evidence_refs"]])) <= 120_000


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize("character", ["x", "é", "😀"])
def test_inline_limits_to_the_byte(runtime, character):
    wide = len(character.encode())
    fitting = character * (LIMIT // wide)

    [whole] = inline(runtime, ["text/plain", fitting])
    [shortened] = inline(runtime, ["text/plain", fitting + character])

    assert whole["content"] == fitting
    assert len(shortened["content"].encode()) <= LIMIT
    assert shortened["content"].startswith(fitting[:1_000])


@pytest.mark.inside("tells the executor what to do")
def test_inline_limits_drop_json_that_is_too_long(runtime):
    fitting, too_long = json.dumps("x" * (LIMIT - 2)), json.dumps("x" * (LIMIT - 1))

    kept = inline(runtime, ["application/json", fitting], ["application/json", too_long], ["application/json", "{"])

    assert kept == [{"mime": "application/json", "content": fitting}]


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize("character", ["x", '"', "\n", "\x01", "😀"])
def test_inline_limits_of_all_evidence_together(runtime, character):
    content = character * (LIMIT // len(character.encode()))
    script = {"evidence": [["text/plain", content]] * 4, "artifacts": [["a", "text", "text/plain"]] * 20}

    body = executed(runtime, a_scripted_request(script))

    escaped = json.dumps([body["evidence_inline"], body["evidence_refs"]], ensure_ascii=False, separators=(",", ":"))
    assert len(escaped.encode()) <= 120_000
    assert len(body["evidence_refs"]) == 20


@pytest.mark.inside("tells the executor what to do")
def test_inline_limits_of_references_alone(runtime):
    long_mime = "text/plain; charset=" + "x" * 2_500
    script = {"artifacts": [[f"a{number}", f"text {number}", long_mime] for number in range(50)]}

    refs = executed(runtime, a_scripted_request(script))["evidence_refs"]

    assert len(canonical(refs)) <= 120_000
    assert len(refs) >= 40


@pytest.mark.inside("tells the executor what to do")
def test_inline_limits_of_references_by_the_verify_budget(runtime):
    script = {"artifacts": [[f"a{number}", f"text {number % 10}", "text/plain"] for number in range(12)]}
    request = a_scripted_request(script)
    request["task_contract"]["budget"]["verify_cost_units"] = 9

    refs = executed(runtime, request)["evidence_refs"]

    assert len({ref["digest"] for ref in refs}) == 6
    assert len(refs) == 8  # a repeated digest costs nothing


@pytest.mark.parametrize("mimes", [[], ["text/markdown"], ["application/json", "text/plain"]], ids=range(3))
def test_inline_mime_from_contract(runtime, mimes):
    body = executed(runtime, an_execute_request(mimes=mimes))

    assert all(item["mime"] in mimes for item in body["evidence_inline"])


@pytest.mark.inside("tells the executor what to do")
def test_inline_mime_from_contract_whatever_the_executor_gives(runtime):
    evidence = [
        ["text/plain", "a"],
        ["text/markdown", "b"],
        ["text/plain; charset=utf-8", "c"],
        ["Text/Plain", "d"],
        ["image/png", "e"],
        ["application/x-own", "f"],
    ]

    assert inline(runtime, *evidence, mimes=["text/plain"]) == [{"mime": "text/plain", "content": "a"}]
    assert inline(runtime, *evidence, mimes=["application/x-own", "image/png"]) == [
        {"mime": "application/x-own", "content": "f"}
    ]
    assert inline(runtime, *evidence, mimes=[]) == []
    assert [item["content"] for item in inline(runtime, *evidence)] == ["a", "b"]


@pytest.mark.inside("knows what the executor echo answers")
@pytest.mark.parametrize(("mimes", "count"), [([], 0), (["text/csv"], 0), (["text/plain"], 1)])
def test_inline_mime_from_contract_by_the_default_executor(runtime, mimes, count):
    body = executed(runtime, an_execute_request(mimes=mimes))

    assert [item["mime"] for item in body["evidence_inline"]] == ["text/plain"] * count
    assert len(body["evidence_refs"]) == 1


MEDIA = {
    "data uri": "see data:image/png;base64,AAAA",
    "data uri in capitals": "DATA:Video/mp4;base64,AAAA",
    "png": f"before {PNG} after",
    "jpeg": JPEG,
    "id3": f"<{ID3_URL_SAFE}>",
}


@pytest.mark.parametrize("media", MEDIA.values(), ids=MEDIA.keys())
def test_inline_media_never_emitted(runtime, media):
    body = executed(runtime, an_execute_request("swarm", {"prompt": media}))

    assert all(media not in item["content"] for item in body["evidence_inline"])


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize("media", MEDIA.values(), ids=MEDIA.keys())
@pytest.mark.parametrize("mime", ["text/plain", "application/json"])
def test_inline_media_never_emitted_whatever_the_executor_gives(runtime, media, mime):
    content = json.dumps({"quote": media}) if mime == "application/json" else media
    script = {"output": {"answer": media}, "evidence": [[mime, content], ["text/plain", "harmless"]]}

    body = executed(runtime, a_scripted_request(script))

    assert body["evidence_inline"] == [{"mime": "text/plain", "content": "harmless"}]
    assert body["candidate_output"] == {"answer": media}


@pytest.mark.inside("knows what the executor echo answers")
@pytest.mark.parametrize("media", MEDIA.values(), ids=MEDIA.keys())
def test_inline_media_never_emitted_leaves_the_output_alone(runtime, media):
    body = executed(runtime, an_execute_request("swarm", {"prompt": media}))

    assert body["candidate_output"]["answer"] == f"default::{media}"


@pytest.mark.inside("tells the executor what to do")
def test_inline_media_never_emitted_but_other_long_words_are(runtime):
    harmless = ["a" * 64, "0" * 63 + "=", base64.b64encode(b"plain text, longer than any signature, " * 3).decode()]

    kept = inline(runtime, *(["text/plain", content] for content in harmless))

    assert [item["content"] for item in kept] == harmless


def test_artifact_ref_integers(runtime):
    answer = execute(runtime, an_execute_request())

    for ref in answer.json()["evidence_refs"]:
        assert type(ref["size_bytes"]) is int and type(ref["created_at"]) is int
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", ref["digest"])
        if ref["uri"].startswith("http"):
            stored = httpx.get(ref["uri"], timeout=60, trust_env=False)  # without a credential, as anybody may
            assert ref["digest"] == f"sha256:{hashlib.sha256(stored.content).hexdigest()}"
            assert ref["size_bytes"] == len(stored.content)


@pytest.mark.inside("tells the executor what to do")
@pytest.mark.parametrize("mime", ["application/json", "text/plain; charset=utf-8", "no mime at all\r\nX-Bad: 1"])
def test_artifact_ref_integers_whatever_the_executor_gives(runtime, mime):
    text = '{"found": "café"}'
    answer = execute(runtime, a_scripted_request({"artifacts": [["a", text, mime]]}))

    [ref] = answer.json()["evidence_refs"]
    assert set(ref) == {"uri", "digest", "size_bytes", "mime", "created_at", "producer"}
    assert re.search(r'"created_at":\d{13}[,}]', answer.text)
    assert re.search(rf'"size_bytes":{len(text.encode())}[,}}]', answer.text)
    assert ref["created_at"] < 2**53
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", ref["digest"])
    assert ref["producer"].strip()
    assert "\n" not in ref["mime"]
    stored = runtime.http.get(ref["uri"])
    assert stored.status_code == 200
    assert stored.content == text.encode()
    assert ref["digest"] == f"sha256:{hashlib.sha256(stored.content).hexdigest()}"
    assert stored.headers["content-type"] == ref["mime"]
