"""Output objects, inputs and due times: the small rules beside the flow."""

import pytest

from piecework.due import Due, due_at, partitions, sweep
from piecework.errors import PieceworkError
from piecework.executors import Artifact
from piecework.hire.deliverables import StoredFile
from piecework.hire.inputs import body_digest, details_of
from piecework.hire.outputs import OutputRefused, output_of
from tests.support.hire_fakes import FakeDueTimes

FILE = Artifact("a.txt", b"a", "text/plain")
STORED = StoredFile("k", "a.txt", "text/plain", 1, "sha256:0")
SCHEMA = {"type": "object", "required": ["score"]}


@pytest.mark.parametrize(
    ("made", "files", "schema", "kinds"),
    [
        ({"score": 1}, [], SCHEMA, "json"),
        ("text", [], {}, "text"),
        ("text", [], {"type": "string"}, "text"),
        (None, [], {}, "json"),
        (None, [FILE], {}, "file"),
        (None, [FILE, FILE], {}, ["file", "file"]),
        ("text", [FILE], {}, ["file", "text"]),
        ("text", [FILE], {"type": "string"}, ["file", "json"]),
        ({"score": (1, 2)}, [FILE], SCHEMA, ["file", "json"]),
    ],
)
def test_what_was_made_becomes_the_smallest_output_object_that_holds_it(made, files, schema, kinds):
    output = output_of(made, files, schema).stored([STORED] * len(files))

    assert output["type"] == (kinds if isinstance(kinds, str) else "multiple")
    if isinstance(kinds, list):
        assert [item["type"] for item in output["items"]] == kinds


@pytest.mark.parametrize(
    ("made", "files"),
    [
        ({"other": 1}, []),
        (None, [FILE]),
        (float("nan"), []),
        ({"score": object()}, []),
        ({"score": 1}, [FILE] * 100),
        ({"score": 1}, [FILE] * 101),
    ],
)
def test_what_breaks_the_schema_or_the_limits_is_no_output(made, files):
    with pytest.raises(OutputRefused):
        output_of(made, files, SCHEMA)


def test_what_is_too_long_to_show_becomes_a_file_after_it_was_checked():
    output = output_of({"score": "x" * 100}, [], SCHEMA, inline_bytes=50)
    (file,) = output.files

    assert output.content is None and file.mime == "application/json" and file.name == "output.json"
    with pytest.raises(OutputRefused):
        output_of({"other": "x" * 100}, [], SCHEMA, inline_bytes=50)


def test_the_same_input_in_another_order_is_the_same_body():
    assert body_digest({"b": 1, "a": 1.0}, b"x") == body_digest({"a": 1, "b": 1}, b"y")
    assert body_digest({"a": 1}, b"x") != body_digest({"a": 2}, b"x")
    assert body_digest(2**60, b"x") != body_digest(2**60, b"y")  # without a canonical form its bytes count


@pytest.mark.parametrize(
    ("problem", "body", "details"),
    [
        ("output.a is not of type string", {"a": 1}, ("a", "/a", "string", "integer")),
        ("output.colors[0] is not of type string", {"colors": [None]}, ("colors[0]", "/colors/0", "string", "null")),
        ('output lacks the required member "a/b"', {}, ("a/b", "/a~1b", "a value", "nothing")),
        ("output is not of type object", [], ("", "", "object", "array")),
        ('output.n does not satisfy "maximum"', {"n": 1.5}, ("n", "/n", '"maximum"', "number")),
    ],
)
def test_a_refused_input_is_told_where_and_what(problem, body, details):
    assert details_of(problem, body) == dict(zip(("field", "path", "expected", "received"), details, strict=True))


def test_a_problem_in_other_words_has_no_details():
    assert details_of("something else", {}) == {}


def test_a_due_time_is_read_back_from_its_row():
    due = Due(1_800_000_000_000, "task", "ctr_a#b")

    assert due_at(due.partition, due.sort) == due and due.partition in partitions("task")


def test_a_sweep_goes_on_after_what_could_not_be_fired():
    times, fired = FakeDueTimes({Due(n, "task", f"ctr_{n}") for n in range(5)}), []

    def fire(due):
        if due.at_ms == 2:
            raise PieceworkError("no")
        fired.append(due.at_ms)

    assert sweep(times, {"task": fire}, 3) == {"failed": 1, "task": 3} and fired == [0, 1, 3]
