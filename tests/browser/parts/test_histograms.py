"""Histograms: every row falls into one bar, the bars say their numbers, and a bar leads to what it counts."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.parts.test_parts import asked
from tests.browser.seeds import HOSTILE

pytestmark = pytest.mark.slow


@pytest.fixture
def page(open_console):
    return open_console("/now")


def drawn(page, came, begins, ends):
    """What each bar says, and the tones and heights (percent) of its parts."""
    body = """
      const { render, html } = await import(new URL('render.js', base));
      const [came, from, to] = values;
      render(html`${exports.overTime({ name: 'by time', came, from, to })}`, element);
      return [...element.querySelectorAll('li')].map((bar) => [bar.title, ...[...bar.querySelectorAll('rect')].map(
        (part) => [part.dataset.tone, parseFloat(part.getAttribute('height'))])]);"""
    return asked(page, "parts/histogram.js", body, came, begins, ends)


def test_each_row_falls_into_one_bar_by_its_state(page):
    came = [
        {"ms": ms, "state": state}
        for ms, state in (
            (0, "failed"),
            (1, "done"),
            (2, "done"),
            (6_000, "running"),
            (11_999, "done"),
            (12_000, "done"),
        )
    ]
    bars = drawn(page, came, 0, 12_000)

    assert len(bars) == 12 and sum(bool(parts) for _, *parts in bars) == 3
    assert bars[0] == ["1970-01-01 00:00:00 to 1970-01-01 00:00:01: 2 done, 1 failed", ["good", 66.67], ["bad", 33.33]]
    assert bars[6] == ["1970-01-01 00:00:06 to 1970-01-01 00:00:07: 1 running", ["busy", 33.33]]
    assert bars[11][0].endswith(": 2 done") and bars[5][0].endswith(": 0")


@pytest.mark.parametrize("long", [1, 5, 12, 25, 1_000, 86_399_999])
def test_what_a_bar_counts_lies_in_the_time_that_its_link_names(page, long):
    body = """
      const { render, html } = await import(new URL('render.js', base));
      const [from, to, times] = values;
      const href = (begins, ends) => `/${begins}/${ends}`;
      const came = times.map((ms) => ({ ms, state: 'done' }));
      render(html`${exports.overTime({ name: 'by time', came, from, to, href })}`, element);
      const links = [...element.querySelectorAll('a')];
      return links.map((bar) => [bar.getAttribute('href'), bar.getAttribute('aria-label')]);"""
    begins = 1_790_000_000_123
    times = [begins + at for at in (range(long) if long <= 1_000 else range(0, long, long // 97))]
    bars = asked(page, "parts/histogram.js", body, begins, begins + long, times)

    counted = 0
    for href, said in bars:
        first, end = map(int, href[1:].split("/"))
        assert int(re.search(r": (\d+) done", said)[1]) == sum(first <= ms < end for ms in times)
        counted += sum(first <= ms < end for ms in times)
    assert counted == len(times)


def test_bars_stay_between_their_ground_and_their_height(page):
    states = {"cancelled": 1, "done": 97, "failed": 1, "running": 1}  # little beside much is drawn higher than it is
    came = [{"ms": 0, "state": state} for state, many in states.items() for _ in range(many)]
    came += [{"ms": ms, "state": "done"} for ms in (5_000, 11_000)]
    body = """
      const { render, html } = await import(new URL('render.js', base));
      render(html`${exports.overTime({ name: 'by time', came: values[0], from: 0, to: 12_000 })}`, element);
      const box = (each) => {
        const { top, bottom, left, right } = each.getBoundingClientRect();
        return [top, bottom, left, right];
      };
      return [box(element.querySelector('ol')), [...element.querySelectorAll('rect')].map(box)];"""
    (top, bottom, left, right), bars = asked(page, "parts/histogram.js", body, came)

    assert len(bars) == 6
    for bar_top, bar_bottom, bar_left, bar_right in bars:
        assert top - 1 <= bar_top < bar_bottom <= bottom + 1 and left <= bar_left < bar_right <= right


def test_little_beside_much_is_seen_and_nothing_draws_nothing(page):
    came = [{"ms": 0, "state": "failed"}] + [{"ms": 9_000, "state": "done"}] * 400
    bars = drawn(page, came, 0, 12_000)

    assert bars[0][1] == ["bad", 4] and bars[9][1] == ["good", 100]
    assert drawn(page, [], 0, 12_000) == []


def test_a_state_that_a_stranger_wrote_stays_a_text(page):
    bars = drawn(page, [{"ms": 5, "state": HOSTILE}], 0, 12)

    assert bars[5] == [f"1970-01-01 00:00:00 to 1970-01-01 00:00:00: 1 {HOSTILE}", ["plain", 100]]


def test_now_and_money_draw_what_they_tell(open_console):
    page = open_console("/now")
    came = page.get_by_role("list", name="pieces by time")
    expect(came.get_by_role("listitem")).to_have_count(12)
    told = page.get_by_role("region", name="What came").locator("dd").first.inner_text()
    said = [bar.get_attribute("title").split(": ", 1)[1] for bar in came.get_by_role("listitem").all()]
    assert sum(int(many) for one in said for many in re.findall(r"(\d+)", one)) == int(re.search(r"\d+", told)[0])

    page = open_console("/hired/money")
    bars = page.get_by_role("list", name=re.compile("Received on base")).get_by_role("link")
    expect(bars).to_have_count(7)
    today = bars.last.get_attribute("aria-label")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d: [1-9]\d* USDC", today)
    day = bars.first.get_attribute("aria-label")[:10]
    bars.first.click()
    expect(page.get_by_label("Day (UTC)")).to_have_value(day, timeout=30_000)
