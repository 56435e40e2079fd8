"""Loops of the template: others write them out as we do, and what CloudFormation would leave as text is an error."""

import json
import re
import shutil
import subprocess
import tomllib
from typing import Any

import pytest

from local.build.deployable import write_out
from local.loops import LOOP, SECTIONS, TemplateError, written_out
from local.template import parsed
from tests.template.conftest import ROOT

SUPPORT = ROOT / "tests" / "support"
TRANSFORMS = ["AWS::LanguageExtensions", "AWS::Serverless-2016-10-31"]


@pytest.fixture(scope="module")
def source() -> dict[str, Any]:
    """The template as it is written."""
    return parsed((ROOT / "template.yaml").read_text("utf-8"))


def nodes(node: Any):
    yield node
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(value)


def made_plain(node: Any, source: dict[str, Any]) -> Any:
    """With texts for `Fn::Sub` without a variable, values for look-ups in mappings, and one form of `Fn::GetAtt`."""
    if isinstance(node, list):
        return [made_plain(value, source) for value in node]
    if not isinstance(node, dict):
        return node
    node = {key: made_plain(value, source) for key, value in node.items()}
    match node:
        case {"Fn::Sub": str(text)} if "${" not in text:
            return text
        case {"Fn::FindInMap": [str(table), {"Ref": parameter}, str(second)]}:
            return source["Mappings"][table][source["Parameters"][parameter]["Default"]][second]
        case {"Fn::FindInMap": [str(table), str(first), str(second)]}:
            return source["Mappings"][table][first][second]
        case {"Fn::GetAtt": str(text)}:
            return {"Fn::GetAtt": text.split(".", 1)}
    return node


def run(*command: Any, given: str = "") -> Any:
    ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_sam_writes_the_same_resources_out(source):
    theirs = run(ROOT / ".venv-sam/bin/python", SUPPORT / "sam_loops.py", ROOT / "template.yaml")

    for part in SECTIONS:
        ours = made_plain(written_out(source)[part], source)
        assert made_plain(theirs[part], source) == ours, part


def test_an_emulator_that_was_measured_against_aws_writes_the_same_resources_out(source):
    theirs = run(ROOT / ".venv-ministack/bin/python", SUPPORT / "ministack_loops.py", given=json.dumps(source))

    for part in SECTIONS:
        ours = made_plain(written_out(source)[part], source)
        assert made_plain(theirs[part], source) == ours, part


def test_nothing_of_a_loop_is_left(source):
    made = written_out(source)

    assert made["Transform"] == TRANSFORMS[1]
    for node in nodes({part: made[part] for part in SECTIONS}):
        assert not (isinstance(node, dict) and any(key.startswith(LOOP) for key in node))
    assert not re.search(r"[$&]\{(Name|Metric|Event|Thing)\}", json.dumps(made))


def test_in_loops_the_condition_of_a_resource_stands_last(source):
    """CloudFormation was seen to take a fragment that begins with `Condition` for a condition function."""
    fragments = [node[key][2] for node in nodes(source) if isinstance(node, dict) for key in node if LOOP in key]
    resources = [body for fragment in fragments for body in fragment.values() if "Type" in body]

    assert len(resources) >= 10
    assert all(list(body)[-1] == "Condition" for body in resources)


def test_what_is_built_for_deployment_is_the_template_without_loops(tmp_path, source):
    built = tmp_path / "template.yaml"
    shutil.copy(ROOT / "template.yaml", built)

    write_out(built)

    assert parsed(built.read_text("utf-8")) == written_out(source)
    assert "LanguageExtensions" not in built.read_text("utf-8") and LOOP not in built.read_text("utf-8")


def test_sam_is_told_to_read_loops_by_each_command_that_reads_the_template():
    settings = tomllib.loads((ROOT / "samconfig.toml").read_text("utf-8"))["default"]
    told = {name for name, body in settings.items() if body["parameters"].get("language_extensions") is True}

    assert told == {
        *("build", "validate", "deploy", "package", "sync"),
        *("local_invoke", "local_start_api", "local_start_lambda"),
    }


def a_template(fragment: Any, *, items: Any = ("A", "B"), name: str = "Things", **more: Any) -> dict[str, Any]:
    return {"Transform": TRANSFORMS, "Resources": {f"{LOOP}{name}": ["Each", list(items), fragment]}, **more}


def thing(**properties: Any) -> dict[str, Any]:
    return {"Type": "Test", "Properties": properties}


def test_an_identifier_is_filled_in_where_cloudformation_fills_it_in():
    body = thing(
        name={"Ref": "Each"},
        other={"Ref": {"Fn::Sub": "Other${Each}"}},
        arn={"Fn::GetAtt": [{"Fn::Sub": "Other${Each}"}, "Arn"]},
        stack={"Fn::Sub": "${AWS::StackName}"},
    )
    made = written_out(a_template({"Thing${Each}": body}))["Resources"]

    assert list(made) == ["ThingA", "ThingB"]
    assert made["ThingB"]["Properties"] == {
        "name": "B",
        "other": {"Ref": "OtherB"},
        "arn": {"Fn::GetAtt": ["OtherB", "Arn"]},
        "stack": {"Fn::Sub": "${AWS::StackName}"},
    }


def test_loops_in_loops_fill_in_both():
    inner = {f"{LOOP}Inner": ["Other", ["X", "Y"], {"${Each}${Other}": thing(a={"Ref": "Each"}, b={"Ref": "Other"})}]}
    made = written_out(a_template({"Thing${Each}": thing(), **inner}))["Resources"]

    assert list(made) == ["ThingA", "AX", "AY", "ThingB", "BX", "BY"]
    assert made["BX"]["Properties"] == {"a": "B", "b": "X"}


@pytest.mark.parametrize(
    ("fragment", "what"),
    [
        ({"Thing${Each}": thing(name="My${Each}")}, "stays as it is"),
        ({"Thing${Each}": thing(**{"My${Each}": 1})}, "stays as it is"),
        ({"Thing${Each}": {"Type": "Test", "Condition": "Is${Each}"}}, "stays as it is"),
        ({"Thing${Each}": thing(name={"Fn::Sub": "${AWS::StackName}-${Each}"})}, "identifiers of loops alone"),
        ({"Thing${Each}": thing(name={"Fn::Sub": ["${Each}${V}", {"V": "1"}]})}, "stays as it is"),
        ({"Thing${Each}": thing(name={"Fn::If": [{"Fn::Sub": "Is${Each}"}, 1, 2]})}, "must be a text"),
        ({"Thing${Each}": thing(**{f"{LOOP}Inner": ["I", ["x"], {"${Each}${I}": 1}]})}, "sections and in other loops"),
        ({"Thing": thing()}, "must name the identifier"),
        ({"Thing&{Each}": thing()}, "no logical id"),
        ({}, "must be an identifier, a list"),
        ([], "must be an identifier, a list"),
    ],
)
def test_a_loop_that_cloudformation_takes_otherwise_is_an_error(fragment, what):
    with pytest.raises(TemplateError, match=what):
        written_out(a_template(fragment))


@pytest.mark.parametrize(
    ("template", "what"),
    [
        (a_template({"Thing${Each}": thing()}) | {"Transform": TRANSFORMS[1]}, "first of a list of transforms"),
        (a_template({"Thing${Each}": thing()}) | {"Transform": TRANSFORMS[::-1]}, "first of a list of transforms"),
        (a_template({"Thing${Each}": thing()}, items=["A", "A"]), "already"),
        (a_template({"Thing${Each}": thing()}, items=["a-b"]), "no logical id"),
        (a_template({"Thing${Each}": thing()}, items=[{"Ref": "List"}]), "list of texts"),
        (a_template({"Thing${Each}": thing()}, Parameters={"Each": {}}), "identifier must be its own"),
        (a_template({"Thing${Each}": thing()}, Parameters={"Things": {}}), "name must be its own"),
    ],
)
def test_a_template_whose_loops_clash_is_an_error(template, what):
    with pytest.raises(TemplateError, match=what):
        written_out(template)


def test_a_template_without_loops_is_taken_as_it_is():
    plain = {"Transform": TRANSFORMS[1], "Resources": {"Thing": thing(name={"Fn::Sub": "${Each}"})}}

    assert written_out(plain) is plain
