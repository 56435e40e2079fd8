"""Output objects, inputs and due times: the small rules beside the flow."""

import pytest

from piecework.durable.due import Due, due_at, one_by_one, partitions, sweep
from piecework.errors import PieceworkError
from piecework.extend.executors import Artifact
from piecework.worker.answer.deliverables import StoredFile
from piecework.worker.answer.outputs import OutputRefused, output_of
from piecework.worker.contract.inputs import body_digest, check_input
from piecework.worker.errors import WorkerError
from tests.support.worker.contracts import a_record
from tests.support.worker.door_fakes import FakeDueTimes

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


def whole(name, schema):
    """An object whose one member must fit a schema."""
    return {"type": "object", "properties": {name: schema}}


def refused(schema, body):
    with pytest.raises(WorkerError) as refusal:
        check_input(a_record(task__input_schema=schema), body)
    return refusal.value


STRING = {"type": "string"}
LONG = "n" * 80


@pytest.mark.parametrize(
    ("schema", "body", "details"),
    [
        (whole("a", STRING), {"a": 1}, ("a", "/a", "string", "integer")),
        (whole("colors", {"items": STRING}), {"colors": [None]}, ("colors[0]", "/colors/0", "string", "null")),
        ({"type": "object", "required": ["a/b"]}, {}, ("a/b", "/a~1b", "a value", "nothing")),
        ({"type": "object"}, [], ("", "", "object", "array")),
        (whole("n", {"maximum": 1}), {"n": 1.5}, ("n", "/n", '"maximum"', "number")),
        (whole("first name", STRING), {"first name": 1}, ("first name", "/first name", "string", "integer")),
        (whole("a.b", STRING), {"a.b": []}, ("a.b", "/a.b", "string", "array")),
        (whole("a[0]", STRING), {"a[0]": True}, ("a[0]", "/a[0]", "string", "boolean")),
        (whole("is not", STRING), {"is not": None}, ("is not", "/is not", "string", "null")),
        (whole("", STRING), {"": 1}, ("", "/", "string", "integer")),
        (whole("a", whole("", STRING)), {"a": {"": 1}}, ("a.", "/a/", "string", "integer")),
        (whole("007", STRING), {"007": 1}, ("007", "/007", "string", "integer")),
        (whole("7", STRING), {"7": 1}, ("7", "/7", "string", "integer")),
        (whole("é~\n", STRING), {"é~\n": 1}, ("é~\n", "/é~0\n", "string", "integer")),
        (whole(LONG, STRING), {LONG: 1}, (LONG, f"/{LONG}", "string", "integer")),
        ({"type": "object", "required": [LONG]}, {}, (LONG, f"/{LONG}", "a value", "nothing")),
        (
            whole("a", whole("b c", {"type": ["string", "null"]})),
            {"a": {"b c": 1}},
            ("a.b c", "/a/b c", None, "integer"),
        ),
        (whole("a", False), {"a": {}}, ("a", "/a", "nothing", "object")),
    ],
)
def test_a_refused_input_is_told_where_and_what_whatever_its_names_are(schema, body, details):
    told = refused(schema, body)

    named = dict(zip(("field", "path", "expected", "received"), details, strict=True))
    assert (told.code, told.status) == ("INVALID_INPUT", 422) and told.message.startswith("input")
    assert {name: told.details[name] for name, value in named.items() if value is not None} == {
        name: value for name, value in named.items() if value is not None
    }


def test_the_text_about_a_refused_input_calls_it_input_and_leaves_its_names_alone():
    told = refused(whole("output", STRING), {"output": 1})

    assert told.message == "input.output is not of type string" and told.details["path"] == "/output"


def test_a_name_as_long_as_a_body_is_not_sent_back():
    name = "n" * 30_000

    assert refused(whole(name, STRING), {name: 1}).details == {}


def test_a_due_time_is_read_back_from_its_row():
    due = Due(1_800_000_000_000, "task", "ctr_a#b")

    assert due_at(due.partition, due.sort) == due and due.partition in partitions("task")


def test_a_sweep_goes_on_after_what_could_not_be_fired():
    times, fired = FakeDueTimes({Due(n, "task", f"ctr_{n}") for n in range(5)}), []

    def fire(due):
        if due.at_ms == 2:
            raise PieceworkError("no")
        fired.append(due.at_ms)

    assert sweep(times, {"task": one_by_one(fire, lambda: None)}, 3) == {"failed": 1, "task": 3} and fired == [0, 1, 3]
