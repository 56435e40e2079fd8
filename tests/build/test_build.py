"""What is built imports, is complete, and is made for the place where it will run."""

import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from local.build.__main__ import main
from local.build.assemble import locked_packages
from local.build.findings import LIMIT_BYTES, findings, folder_bytes
from local.build.target import BuildError, Target
from local.build.tools import find_python
from local.build.trimming import MODELS, UNREAD
from local.template import Template
from tests.support.misbehaving import answering

ROOT = Path(__file__).resolve().parents[2]
EVERY_DOOR = {"DeployWorkerDoor": "true", "DeployKernelDoor": "true", "DeployConsole": "true"}
FUNCTIONS = Template.load(ROOT / "template.yaml", EVERY_DOOR).of_type("AWS::Serverless::Function")
LAYERS = ["PieceworkLayer", "ExecutorsLayer", "HireLayer", "KernelLayer", "ConsoleLayer"]
HANDLERS = {  # scripts start these
    "worker/streams/run.sh": "worker.streams.app.app",
    "kernel/streams/run.sh": "kernel.streams.app.app",
    "ops/kernel_streams/run.sh": "ops.kernel_streams.app.app",
}
IMPORT = """
import importlib, sys
module, _, name = sys.argv[1].rpartition(".")
assert callable(getattr(importlib.import_module(module), name))
"""
AWS_ANSWERS = (  # to the calls below, each of a service that the doors do not call, with a protocol of its own
    b"\x00\x01sound",
    b"<ListHostedZonesResponse><HostedZones><HostedZone><Id>/hostedzone/Z1</Id><Name>a.example.</Name>"
    b"<CallerReference>r</CallerReference></HostedZone></HostedZones><IsTruncated>false</IsTruncated>"
    b"<MaxItems>1</MaxItems></ListHostedZonesResponse>",
    b'{"TranslatedText":"hallo"}',
    b"<PublishResponse><PublishResult><MessageId>m-1</MessageId></PublishResult></PublishResponse>",
)
UNUSUAL_CALLS = """
import json, sys
import boto3, botocore
known = dict(region_name="us-east-1", endpoint_url=sys.argv[1], aws_access_key_id="a", aws_secret_access_key="b")
polly, route53, translate, sns = (boto3.client(name, **known) for name in ("polly", "route53", "translate", "sns"))
spoken = polly.synthesize_speech(Text="hi", OutputFormat="mp3", VoiceId="Joanna")["AudioStream"].read()
[zone] = route53.get_paginator("list_hosted_zones").paginate().search("HostedZones[].Name")
text = translate.translate_text(Text="hi", SourceLanguageCode="en", TargetLanguageCode="de")["TranslatedText"]
sent = sns.publish(TopicArn="arn:aws:sns:us-east-1:1:t", Message="hi")["MessageId"]
try:
    translate.translate_text(Text="hi")
except botocore.exceptions.ParamValidationError as error:
    refused = str(error)
boto3.client("ecs", **known).get_waiter("services_stable"), boto3.resource("glacier", **known).Account("-")
str(translate.translate_text.__doc__)
print(json.dumps([spoken.hex(), zone, text, sent, refused, botocore.__file__]))
"""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_built_handler_imports_with_nothing_but_its_layers(name, template, built_functions, host_layers, host):
    function = template.of_type("AWS::Serverless::Function")[name]
    layers = dict(zip(LAYERS, host_layers, strict=True))
    own = [layer for layer in function["Layers"] if layer in layers]  # the adapter's holds no Python
    path = [built_functions[name], *(layers[layer] / "python" for layer in own)]
    variables = {**template.globals["Function"]["Environment"]["Variables"], **function["Environment"]["Variables"]}
    environment = variables | {"PYTHONPATH": os.pathsep.join(map(str, path)), "AWS_REGION": "us-east-1"}
    environment |= {"AWS_DEFAULT_REGION": "us-east-1", "PATH": os.environ["PATH"]}

    command = [
        find_python(host.python),
        "-S",
        "-s",
        "-W",
        "error",
        "-c",
        IMPORT,
        HANDLERS.get(function["Handler"], function["Handler"]),
    ]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr


def test_the_deployed_layers_fit_their_processor_and_python(deployed_layers, deployed):
    assert [line for layer in deployed_layers for line in findings(layer, deployed)] == []
    assert sum(map(folder_bytes, deployed_layers)) < LIMIT_BYTES / 2  # room for the executors' own packages


def test_a_function_ships_its_own_folder_and_nothing_else(built_functions, template, deployed):
    for name, folder in built_functions.items():
        door, own = re.split("[./]", template.of_type("AWS::Serverless::Function")[name]["Handler"])[:2]
        requirements = template.folder / "functions" / door / own / "requirements.txt"
        needs = locked_packages(requirements.read_text("utf-8")) if requirements.exists() else ()

        shipped = {entry.name for entry in folder.iterdir() if not needs or entry.name == door}
        assert shipped == {door}
        assert {entry.name for entry in (folder / door).iterdir()} == {"__init__.py", "__pycache__", own}
        assert findings(folder, deployed) == []


def test_the_executors_layer_says_what_it_registers(deployed_layers):
    manifest = json.loads((deployed_layers[1] / "python/executors/manifest.json").read_text("utf-8"))

    assert "echo" in {entry["name"] for entry in manifest["executors"]}


def test_a_package_of_our_layer_ships_once(deployed_layers):
    ours, *others = (
        {file.relative_to(layer) for file in layer.rglob("*") if file.is_file()} for layer in deployed_layers
    )

    assert [ours & theirs for theirs in others] == [set()] * 4


def test_what_two_layers_of_one_function_both_have_is_the_same(template):
    """A function of /ops has the worker's layer and the console's: the later one's files win."""
    worker, ops = (
        locked_packages((template.folder / "layers" / name / "requirements.txt").read_text("utf-8"))
        for name in ("worker", "ops")
    )

    assert "cryptography" in ops and all(worker[name].split() == block.split() for name, block in ops.items())


def test_an_executor_calls_services_that_the_doors_do_not_know(host_layers, host):
    path = os.pathsep.join(str(layer / "python") for layer in host_layers[:2])
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body) for body in AWS_ANSWERS]

    with answering(*answers) as aws:
        command = [find_python(host.python), "-S", "-s", "-c", UNUSUAL_CALLS, aws.url]
        ended = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    spoken, zone, text, sent, refused, found = json.loads(ended.stdout)
    assert (bytes.fromhex(spoken), zone, text, sent) == (b"\x00\x01sound", "a.example.", "hallo", "m-1")
    assert 'Missing required parameter in input: "SourceLanguageCode"' in refused
    assert Path(found).is_relative_to(host_layers[1])


def test_boto3_ships_in_the_executors_layer_alone(deployed_layers):
    assert [layer.name for layer in deployed_layers if list(layer.glob("python/boto*"))] == ["executors"]


def test_what_no_call_reads_is_left_out(deployed_layers):
    models = (deployed_layers[1] / "python").glob(MODELS)
    dynamodb = next(model for model in models if model.parts[-3] == "dynamodb")

    assert b'"documentation"' not in gzip.decompress(dynamodb.read_bytes())
    assert [file for pattern in UNREAD for layer in deployed_layers for file in layer.glob(f"python/{pattern}")] == []


def test_a_wrong_processor_is_found(deployed_layers):
    wrong = Target(python="3.13", arch="x86_64")

    assert any("not 62 (x86_64)" in line for line in findings(deployed_layers[0], wrong))


def test_an_extension_of_another_python_is_found(tmp_path, deployed):
    (tmp_path / "fast.cpython-39-aarch64-linux-gnu.so").write_bytes(b"\x7fELF" + bytes(14) + b"\xb7\x00")

    assert findings(tmp_path, deployed) == [
        f"fast.cpython-39-aarch64-linux-gnu.so: made for another Python than {deployed.python}"
    ]


def test_byte_code_that_lambda_would_not_use_is_found(tmp_path, built_functions, deployed):
    folder = shutil.copytree(built_functions["ExecuteFunction"], tmp_path / "copy")
    compiled = next(folder.rglob("app.*.pyc"))
    content = compiled.read_bytes()

    compiled.write_bytes(content[:4] + bytes(4) + content[8:])
    time_stamped = findings(folder, deployed)
    compiled.write_bytes(bytes(4) + content[4:])
    of_another_python = findings(folder, deployed)
    compiled.unlink()
    missing = findings(folder, deployed)

    assert time_stamped == ["runtime/execute/app.py: byte code that would be checked against its source"]
    assert of_another_python == [f"runtime/execute/app.py: byte code of another Python than {deployed.python}"]
    assert missing == [f"runtime/execute/app.py: no byte code for Python {deployed.python}"]


def test_a_machine_without_the_runtimes_python_is_told_what_to_do(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PIECEWORK_BUILD_PYTHON", "3.99")

    status = main(["function", "runtime/authorizer", str(tmp_path / "out")])

    assert status == 1
    assert "python3.99 was not found" in capsys.readouterr().err


def test_an_unknown_processor_is_refused():
    with pytest.raises(BuildError, match="arm64, x86_64"):
        Target.from_env({"PIECEWORK_BUILD_ARCH": "riscv"})


def test_every_locked_package_carries_hashes(template):
    folders = (template.folder / "layers", template.folder / "functions")
    for requirements in (found for folder in folders for found in folder.glob("**/requirements.txt")):
        for name, block in locked_packages(requirements.read_text("utf-8")).items():
            assert "--hash=sha256:" in block, name
