"""What docs/cost.md says a stack costs without a request, and an open stream, is what template and code make."""

import re

import pytest

from piecework.kernel.streams.listening import BUSY_SECONDS, IDLE_SECONDS

DOORS = {
    "Runtime": "DeployRuntimeDoor",
    "Worker": "DeployWorkerDoor",
    "Kernel": "DeployKernelDoor",
    "Operator's": "DeployConsole",
}
ALARM, SECRET, METRIC, METRICS_OF_A_METHOD = 0.10, 0.40, 0.30, 5


def fixed(load_template, door):
    """Metrics that alarms read, secrets, metrics of settlements and methods of a stack with this door alone."""
    deployed = {parameter: str(name == door).lower() for name, parameter in DOORS.items()}
    template = load_template(**deployed)
    alarms = template.of_type("AWS::CloudWatch::Alarm").values()
    read = [sum("MetricStat" in part for part in alarm.get("Metrics", ())) or 1 for alarm in alarms]
    parts = [
        part["MetricStat"]["Metric"] for alarm in alarms for part in alarm.get("Metrics", ()) if "MetricStat" in part
    ]
    own = [metric for metric in [*alarms, *parts] if metric.get("Namespace", "").startswith("Piecework/")]
    functions = template.of_type("AWS::Serverless::Function").values()
    events = [event for body in functions for event in body.get("Events", {}).values()]
    return {
        "alarms": sum(read),
        "secrets": len(template.of_type("AWS::SecretsManager::Secret")),
        "settlements": sum("Dimensions" not in metric for metric in own),
        "methods": sum(event["Type"] == "Api" for event in events),
    }


def row(text, start):
    [line] = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [re.sub(r"[*$–]", "", cell).strip() or "0" for cell in line.strip("|").split("|")[1:]]


@pytest.mark.parametrize(("place", "door"), list(enumerate(DOORS)), ids=list(DOORS))
def test_the_fixed_costs_are_those_of_the_template(root, load_template, place, door):
    text = (root / "docs/cost.md").read_text("utf-8").partition("## Each month")[2].partition("\n## ")[0]
    counted = fixed(load_template, door)

    assert row(text, "alarms")[place] == str(counted["alarms"])
    assert row(text, "secrets")[place] == str(counted["secrets"])
    assert float(row(text, "**together**")[place]) == pytest.approx(
        counted["alarms"] * ALARM + counted["secrets"] * SECRET
    )
    flat = " ".join(text.split())
    assert f"${counted['methods'] * METRICS_OF_A_METHOD * METRIC:.2f}" in flat
    assert re.search(rf"\b{counted['methods']} (methods )?of the {door.lower()} door", flat)
    assert f"{counted['settlements']} of the worker door's settlements" in flat or door != "Worker"


GB_SECOND, READ_UNIT, MONTH = 0.0000133334, 0.125e-6, 2_592_000
HINT = 0.5  # units of an eventually consistent read
BEFORE = {"agent": 19.80, "runner": 19.80, "monitor": 18.58}  # at 512 MB, with 10 hints and 4 looks at a log a second
SHARE = 1.1  # of that, at most


@pytest.mark.parametrize("kind", BEFORE)
def test_an_open_stream_costs_what_the_document_says_however_busy_it_is(root, load_template, kind):
    text = (root / "docs/cost.md").read_text("utf-8").partition("## A stream that is open")[2].partition("\n## ")[0]
    first = 2 if kind == "monitor" else 0
    functions = load_template(DeployKernelDoor="true").of_type("AWS::Serverless::Function")
    memory = functions["KernelStreamsFunction"]["MemorySize"]
    assert float(row(text, "Lambda")[first]) == pytest.approx(memory / 1024 * MONTH * GB_SECOND, abs=0.005)

    for column, seconds in ((first, IDLE_SECONDS), (first + 1, BUSY_SECONDS)):
        hints = MONTH / seconds[kind] * HINT * READ_UNIT
        assert float(row(text, "DynamoDB: marks")[column].split()[0]) == pytest.approx(hints, abs=0.005)
        rows = [
            line.removeprefix("| ") for line in text.splitlines() if line.startswith(("| Lambda", "| API", "| Dyn"))
        ]
        together = float(row(text, "**together**")[column])
        assert together == pytest.approx(sum(float(row(text, start)[column].split()[0]) for start in rows), abs=0.005)
        assert together <= SHARE * BEFORE[kind]
