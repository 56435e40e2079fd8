"""Without its documentation a model of botocore says what it said, for every service."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import botocore
import pytest

from local.build.trimming import MODELS, trim, without_documentation

SHIPPED = Path(botocore.__file__).parents[1]
EVERY_CLIENT = """
import boto3, botocore
session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
for name in session.get_available_services():
    client = session.client(name)
    for operation in client.meta.service_model.operation_names:
        client.meta.service_model.operation_model(operation).input_shape
print(len(session.get_available_services()), botocore.__file__)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A trimmed copy of botocore."""
    copy = tmp_path_factory.mktemp("library")
    shutil.copytree(SHIPPED / "botocore", copy / "botocore", ignore=shutil.ignore_patterns("__pycache__"))
    trim(copy)
    return copy


def test_a_model_keeps_members_that_are_named_documentation():
    model = {
        "documentation": "<p>text</p>",
        "shapes": {
            "documentation": {"type": "string", "documentation": "<p>text</p>"},
            "A": {"type": "structure", "required": ["documentation"], "members": {"documentation": {"shape": "B"}}},
        },
    }

    kept = json.loads(gzip.decompress(without_documentation(gzip.compress(json.dumps(model).encode()))))

    assert kept == {
        "shapes": {
            "documentation": {"type": "string"},
            "A": {"type": "structure", "required": ["documentation"], "members": {"documentation": {"shape": "B"}}},
        }
    }


def test_the_same_model_gives_the_same_bytes():
    shipped = next(SHIPPED.glob("botocore/data/sqs/*/service-2.json.gz")).read_bytes()

    assert without_documentation(shipped) == without_documentation(gzip.compress(gzip.decompress(shipped), mtime=1))


@pytest.mark.slow
def test_every_model_differs_from_the_shipped_one_in_its_documentation_alone(library):
    models = sorted(file.relative_to(SHIPPED) for file in SHIPPED.glob(MODELS))

    assert len(models) > 400
    for model in models:
        shipped, built = (json.loads(gzip.decompress((folder / model).read_bytes())) for folder in (SHIPPED, library))
        assert list(lost(shipped, built)) == [], model


@pytest.mark.slow
def test_a_client_of_every_service_can_be_made(library):
    path = os.pathsep.join(map(str, (library, SHIPPED)))
    command = [sys.executable, "-S", "-s", "-c", EVERY_CLIENT]
    ended = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    count, found = ended.stdout.split()
    assert int(count) > 400
    assert Path(found).is_relative_to(library)


def lost(shipped, built, name="model"):
    """What `built` lacks or says otherwise, except for texts that document."""
    if isinstance(shipped, dict) and isinstance(built, dict):
        texts = {key for key, value in shipped.items() if key == "documentation" and isinstance(value, str)}
        if shipped.keys() - texts != built.keys() or list(built) != [key for key in shipped if key in built]:
            yield f"{name}: {sorted(shipped.keys() ^ built.keys())}"
        for key in shipped.keys() & built.keys():
            yield from lost(shipped[key], built[key], f"{name}.{key}")
    elif isinstance(shipped, list) and isinstance(built, list) and len(shipped) == len(built):
        for position, (theirs, ours) in enumerate(zip(shipped, built, strict=True)):
            yield from lost(theirs, ours, f"{name}[{position}]")
    elif type(shipped) is not type(built) or shipped != built:
        yield name
