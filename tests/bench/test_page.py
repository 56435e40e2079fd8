"""docs/performance.md shows what the bench wrote, and its picture is small, readable and harmless."""

import json
import re
from xml.etree import ElementTree

import pytest

from bench import page
from bench.picture import BARS, WIDTH, picture
from bench.report import RATIOS

FIGURES = json.loads(page.FIGURES.read_text("utf-8"))
MADE = {
    **dict.fromkeys(BARS, 0.2),
    "kernel_cold_vs_fastapi": 0.9,
    "spread": {"execute_cold_vs_boto3": [0.4, 9.0]},
}


def test_the_committed_picture_is_drawn_from_the_committed_figures():
    assert page.PICTURE.read_text("utf-8") == picture(FIGURES)


def test_the_committed_tables_are_written_from_the_committed_figures():
    text = page.PAGE.read_text("utf-8")

    assert page.with_tables(text, FIGURES) == text
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    assert f"]({page.PICTURE.name})" in text


def test_the_committed_figures_say_where_they_come_from():
    assert {"cpu", "cores", "memory_gb", "os", "python", "libraries", "load_before", "load_after"} <= set(
        FIGURES["machine"]
    )
    assert {"execute_cold_vs_boto3", "cold_execute_ms"} <= FIGURES["spread"].keys()


def test_a_picture_has_a_bar_for_each_main_ratio_and_its_words_are_text():
    drawn = ElementTree.fromstring(picture(MADE))

    names = {element.tag.rpartition("}")[2] for element in drawn.iter()}
    words = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    bars = [element.attrib["class"] for element in drawn.iter() if element.tag.endswith("rect")]
    assert names == {"svg", "style", "text", "rect", "line"}
    assert BARS.keys() <= RATIOS.keys() and set(BARS.values()) <= set(words)
    assert bars.count("over") == 1 and len(bars) == len(BARS)
    assert max(float(element.attrib["x2"]) for element in drawn.iter() if "x2" in element.attrib) < WIDTH


@pytest.mark.parametrize("name", ["kernel_cold_vs_fastapi", "hire_cold_vs_boto3"])
def test_what_a_run_did_not_measure_is_left_out(name):
    left = {key: value for key, value in MADE.items() if key != name}

    assert BARS[name] not in picture(left)
    assert not re.search(name, "".join(page.tables({**left, "machine": FIGURES["machine"]})))
