"""The console's files: known by name, kept by their hash, sent with the policy; small."""

import base64
import gzip
import re

import pytest

from local.gateway.lambdas.variables import ROOT
from piecework.errors import SettingsError
from piecework.ops.console.files import ConsoleFiles, serve_files
from piecework.ops.console.policy import headers
from piecework.ops.status import QUEUES
from tests.support.ops.console_files import OURS, needed
from tests.support.ops.requests import an_event
from tests.support.runtime.runtime_handlers import Context, Lines

MOST_BYTES = 150_000  # of all files, compressed
MOST_LINES = 150  # of the renderer's code
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types piecework"
)
FILES = ConsoleFiles(OURS)


def ask(path, *, resource="/console/{proxy+}", method="GET", files=FILES, lines=None, **sent):
    event = an_event(
        path, method=method, resource=resource, headers=sent, pathParameters={"proxy": path.removeprefix("/console/")}
    )
    return serve_files(files, event, Context(), lines or Lines())


def body_of(answer):
    data = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"].encode()
    return gzip.decompress(data) if answer["headers"].get("Content-Encoding") == "gzip" else data


def static(name):
    return f"/console/static/{FILES.version}/{name}"


@pytest.mark.parametrize(
    ("path", "depth"), [("/console/now", 0), ("/console/pieces/abc", 1), ("/console/a/b/c-1.2", 2)]
)
def test_every_address_of_a_view_has_the_page_which_finds_its_files_by_a_relative_path(path, depth):
    answer = ask(path)
    page = body_of(answer).decode()

    assert (answer["statusCode"], answer["headers"]["Cache-Control"]) == (200, "no-cache")
    assert answer["headers"]["Content-Type"] == "text/html; charset=utf-8"
    assert f'src="{"../" * depth}static/{FILES.version}/load.js"' in page and "{static}" not in page


@pytest.mark.parametrize("name", [name for name in OURS if name != "index.html"])
def test_a_file_is_sent_as_it_is_and_kept_for_good(name):
    answer = ask(static(name))

    assert (answer["statusCode"], body_of(answer)) == (200, OURS[name])
    assert answer["headers"]["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer["headers"]["Content-Type"].partition(";")[0] in {"text/javascript", "text/css", "image/svg+xml"}


@pytest.mark.parametrize(
    "path",
    [
        "/console/static/0123456789abcdef/main.js",
        static("index.html"),
        static("../app.py"),
        static("../../../app.py"),
        static("%2e%2e/app.py"),
        static(""),
        static("main.js/"),
        static("nope.js"),
        "/console/static/",
        "/console/static",
        "/console/../app.py",
        "/console//etc/passwd",
        "/console/a\nb",
        "/console/" + "a" * 129,
        "/console/" + "a/" * 20,
        "/console/a%2Fb",
    ],
)
def test_what_is_not_among_them_is_404_or_the_page_and_never_another_file(path):
    answer = ask(path)

    assert answer["statusCode"] == 404 or body_of(answer).startswith(b"<!doctype html>")
    assert b"import" not in body_of(answer)
    assert answer["statusCode"] == 404 or path in ("/console/static", "/console/../app.py")


def test_every_answer_has_the_policy_and_nothing_is_left_open():
    for answer in (ask("/console/now"), ask(static("main.js")), ask(static("nope")), ask("/", resource="/")):
        assert answer["headers"]["Content-Security-Policy"] == POLICY
        assert answer["headers"]["X-Content-Type-Options"] == "nosniff"
        assert answer["headers"]["Referrer-Policy"] == "no-referrer"
        assert answer["headers"]["Cross-Origin-Opener-Policy"] == "same-origin"


def test_another_origin_to_call_is_an_https_origin_and_stands_beside_our_own():
    named = headers(["https://login.example.com", "https://bucket.s3.eu-central-1.amazonaws.com"])

    assert "connect-src 'self' https://login.example.com https://bucket" in named["Content-Security-Policy"]
    for wrong in ("http://login.example.com", "https://a.example; script-src *", "*", "https://*.example.com", ""):
        with pytest.raises(SettingsError):
            headers([wrong])


def test_no_file_has_an_inline_script_or_style_or_an_address_elsewhere():
    for name, data in OURS.items():
        text = data.decode()
        assert not re.search(r"""\sstyle=["'$]|\son[a-z]+=["'$]|javascript:""", text), name
        assert not re.search(
            r"innerHTML(?! = /\*\* @type \{string\} \*/ \(policy)|outerHTML|insertAdjacentHTML|eval\(", text
        ), name
        assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}, name
    assert not re.search(r"<script(?![^>]* src=)|<style", OURS["index.html"].decode())


def test_a_known_tag_is_answered_without_the_file():
    tag = ask("/console/now")["headers"]["ETag"]
    again = ask("/console/now", **{"If-None-Match": f'W/"x", {tag}'})

    assert (again["statusCode"], again["body"]) == (304, "")
    assert ask("/console/now", **{"If-None-Match": '"another"'})["statusCode"] == 200


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, gzip;q=0.8", True),
        ("GZIP", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
    ],
)
def test_it_is_compressed_for_those_who_take_it(accepted, packed):
    answer = ask(static("render.js"), **({"Accept-Encoding": accepted} if accepted else {}))

    assert (answer["headers"].get("Content-Encoding") == "gzip") is packed
    assert answer["headers"]["Vary"] == "Accept-Encoding" and body_of(answer) == OURS["render.js"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_it_is_only_read(method):
    answer = ask("/console/session", method=method)

    assert (answer["statusCode"], answer["headers"]["Allow"]) == (405, "GET, HEAD")
    assert ask("/console/now", method="HEAD")["body"] == ""


@pytest.mark.parametrize(
    ("resource", "path", "place"),
    [
        ("/", "/", "console/now"),
        ("/", "/prod/", "console/now"),
        ("/", "/prod", "prod/console/now"),
        ("/console", "/prod/console", "console/now"),
    ],
)
def test_the_door_itself_leads_to_the_console_behind_whatever_stands_before_it(resource, path, place):
    event = an_event("/", resource=resource, requestContext={"path": path}, pathParameters=None)
    answer = serve_files(FILES, event, Context(), Lines())

    assert (answer["statusCode"], answer["headers"]["Location"]) == (302, place)


def test_another_file_makes_another_name_for_all_and_the_old_name_is_gone():
    other = ConsoleFiles({**OURS, "main.js": b"other"})

    assert other.version != FILES.version
    assert ask(static("render.js"), files=other)["statusCode"] == 404


def test_files_of_another_kind_are_not_served_at_all():
    with pytest.raises(SettingsError):
        ConsoleFiles({**OURS, "secrets.env": b""})
    with pytest.raises(SettingsError):
        ConsoleFiles({"main.js": b""})


def test_a_bug_is_logged_and_answered_without_its_text():
    class Broken(ConsoleFiles):
        def answer(self, request):
            raise RuntimeError("a secret")

    lines = Lines()
    answer = ask("/console/now", files=Broken(OURS), lines=lines)

    assert answer["statusCode"] == 500 and "secret" not in answer["body"] and lines.bugs == ["ops_files"]


def test_all_files_together_are_small_and_the_document_says_how_small():
    sizes = {name: len(gzip.compress(data, mtime=0)) for name, data in OURS.items()}
    print("\n".join(f"{size:>7} {name}" for name, size in sorted(sizes.items(), key=lambda item: -item[1])))
    section = (ROOT / "docs/console.md").read_text().partition("## Size")[2].partition("\n## ")[0]
    said: dict[str, float] = {}
    for folder, files in re.findall(r"^\| (\S+) \| [0-9.]+ \| (`.*) \|$", section, re.MULTILINE):
        place = "" if folder == "/" else f"{folder}/"
        said |= {place + name: 1000 * float(size) for name, size in re.findall(r"`([^`]+)` ([0-9.]+)", files)}

    assert sum(sizes.values()) <= MOST_BYTES, sizes
    assert said == pytest.approx(sizes, abs=300), "write the table of docs/console.md again"


def test_the_renderer_is_read_in_one_sitting():
    code = [
        line for line in OURS["render.js"].decode().splitlines() if line.strip() and not re.match(r"\s*(//|/?\*)", line)
    ]

    assert len(code) <= MOST_LINES


def test_only_the_renderer_writes_texts_into_a_page():
    """Else a text of a stranger could reach it with characters that nobody sees."""
    writing = re.compile(
        r"\.(?:textContent|innerText|outerText|title|ariaLabel) = |createTextNode|insertAdjacent|createAttribute"
    )
    ours = {"format.js": 1, "router.js": 1, "load.js": 2}  # a time anew; the title of the document; sentences of ours
    found = {name: len(writing.findall(data.decode())) for name, data in OURS.items() if name.endswith(".js")}

    assert {name: count for name, count in found.items() if count} == ours


def test_the_document_says_how_many_files_a_first_view_needs():
    section = (ROOT / "docs/console.md").read_text().partition("## Loading")[2].partition("\n## ")[0]
    said = {
        name: int(count)
        for names, count in re.findall(r"^\| (.+) \| ([0-9]+) \|$", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    views = [
        name.removeprefix("pages/").removesuffix(".js")
        for name in re.findall(r'load\("(pages/\w+\.js)"\)', OURS["routes.js"].decode())
    ]

    assert said == pytest.approx({view: len(needed(view)) for view in views}, abs=2)


def test_the_console_says_of_every_queue_what_it_is_for():
    known = re.findall(r"^  (\w+): \{ what: \".+\", after: \".+\" \},$", OURS["parts/queues.js"].decode(), re.MULTILINE)

    assert sorted(known) == sorted(QUEUES)
