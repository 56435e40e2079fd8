"""What docs/cost.md says a stack costs without a request is what the template makes."""

import re

import pytest

DOORS = ("Runtime", "Worker", "Kernel")
ALARM, SECRET, METRIC, METRICS_OF_A_METHOD = 0.10, 0.40, 0.30, 5


def fixed(load_template, door):
    """Metrics that alarms read, secrets, metrics of settlements and methods of a stack with this door alone."""
    deployed = {f"Deploy{name}Door": str(name == door).lower() for name in DOORS}
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


@pytest.mark.parametrize("place", range(3), ids=DOORS)
def test_the_fixed_costs_are_those_of_the_template(root, load_template, place):
    text = (root / "docs/cost.md").read_text("utf-8").partition("## Each month")[2].partition("\n## ")[0]
    counted = fixed(load_template, DOORS[place])

    assert row(text, "alarms")[place] == str(counted["alarms"])
    assert row(text, "secrets")[place] == str(counted["secrets"])
    assert float(row(text, "**together**")[place]) == pytest.approx(
        counted["alarms"] * ALARM + counted["secrets"] * SECRET
    )
    flat = " ".join(text.split())
    assert f"${counted['methods'] * METRICS_OF_A_METHOD * METRIC:.2f}" in flat
    assert re.search(rf"\b{counted['methods']} (methods )?of the {DOORS[place].lower()} door", flat)
    assert f"{counted['settlements']} of the worker door's settlements" in flat or DOORS[place] != "Worker"
