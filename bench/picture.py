"""The main ratios as a picture: a bar per ratio beside a line at 1, which is what one would write instead."""

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from bench.report import AT_MOST

TITLE: Final = "Piecework beside what one would write instead"
BARS: Final = {  # in the order of the picture
    "execute_cold_vs_boto3": "start of execute / handler with one boto3 client",
    "execute_cold_vs_idiomatic": "start of execute / Powertools handler",
    "verify_cold_vs_idiomatic": "start of verify / Powertools handler",
    "hire_cold_vs_boto3": "start of hire / handler with one boto3 client",
    "kernel_cold_vs_fastapi": "start of the kernel / FastAPI and Mangum",
    "authorizer_cold_vs_boto3": "first answer of the authorizer / with boto3",
    "capabilities_cold_vs_bare": "start of capabilities / empty handler",
    "execute_warm_vs_powertools": "warm execute / Powertools handler",
    "execute_warm_vs_fastapi": "warm execute / FastAPI and Mangum",
    "verify_warm_vs_powertools": "warm verify / Powertools handler",
}
LEFT, TOP, ROW, BAR, WIDTH = 340, 52, 26, 14, 780
UNIT: Final = 240  # pixels of a ratio of 1
MOST: Final = 1.5  # a longer bar ends here
STYLE: Final = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .note { fill: #59636e; font-size: 12px }
  .bar { fill: #2f81f7 } .over { fill: #d1762c }
  .line { stroke: #59636e; stroke-dasharray: 4 3 } .spread { stroke: #1f2328 }
  .goal { stroke: #1a7f37; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .note { fill: #9198a1 } .line { stroke: #9198a1 } .spread { stroke: #f0f6fc }
    .goal { stroke: #3fb950 }
  }
"""


def picture(of: Mapping[str, Any]) -> str:
    """An SVG of a run's figures, as `build/bench.json` holds them; a ratio that the run lacks is left out."""
    shown = [name for name in BARS if name in of]
    height = TOP + ROW * len(shown) + 36
    rows = [_row(name, of, TOP + ROW * number) for number, name in enumerate(shown)]
    line = f'<line class="line" x1="{LEFT + UNIT}" x2="{LEFT + UNIT}" y1="{TOP - 6}" y2="{height - 32}"/>'
    note = "bar: median of the rounds; thin line: 10th to 90th percentile; green: goal; dashed: as much as the other"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{TITLE}">',
            f"<style>{STYLE}</style>",
            f'<text class="title" x="12" y="24">{TITLE}</text>',
            f'<text class="note" x="12" y="{height - 12}">{note}</text>',
            line,
            *rows,
            "</svg>\n",
        )
    )


def _row(name: str, of: Mapping[str, Any], y: int) -> str:
    value, (low, high), goal = of[name], of["spread"].get(name, (of[name], of[name])), AT_MOST[name]
    middle, kind = y + BAR / 2, "bar" if value <= goal else "over"
    return "\n".join(
        (
            f'<text x="{LEFT - 10}" y="{y + BAR - 2}" text-anchor="end">{escape(BARS[name])}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{_wide(value)}" height="{BAR}" rx="2"/>',
            f'<line class="spread" x1="{LEFT + _wide(low)}" x2="{LEFT + _wide(high)}" y1="{middle}" y2="{middle}"/>',
            f'<line class="goal" x1="{LEFT + _wide(goal)}" x2="{LEFT + _wide(goal)}" y1="{y - 3}" y2="{y + BAR + 3}"/>',
            f'<text x="{LEFT + _wide(max(high, goal)) + 8}" y="{y + BAR - 2}">{value:.2f}</text>',
        )
    )


def _wide(ratio: float) -> int:
    return round(min(ratio, MOST) * UNIT)
