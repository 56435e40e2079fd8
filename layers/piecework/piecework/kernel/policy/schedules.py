"""Weekly schedules: `Mon-Fri 09:00-17:00 Europe/Zurich` (specification 5.2)."""

import re
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from piecework.values import dataclass

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
FORM: Final = re.compile(r"(\S+) ([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9]) (\S+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Days and hours of one zone; the end is exclusive, and a start after the end spans midnight."""

    text: str
    days: frozenset[int]  # Monday is 0
    start: int  # minutes of the day
    end: int
    zone: ZoneInfo

    @classmethod
    def of(cls, text: str) -> "Schedule":
        """Read a schedule.

        Raises:
            ValueError: the text is not a schedule, or names a zone that is not known.
        """
        form = FORM.fullmatch(text)
        if not form:
            raise ValueError("must read `<days> HH:MM-HH:MM <zone>`, such as `Mon-Fri 09:00-17:00 Europe/Zurich`")
        start, end = int(form[2]) * 60 + int(form[3]), int(form[4]) * 60 + int(form[5])
        if start == end:
            raise ValueError("starts and ends at the same minute, which is never")
        return cls(text, _days(form[1]), start, end, _zone(form[6]))

    def holds(self, now_ms: int) -> bool:
        """Whether a moment lies in it; both halves of a night belong to the weekday of the moment itself."""
        try:
            now = datetime.fromtimestamp(now_ms / 1000, self.zone)
        except (ValueError, OverflowError, OSError):
            return False  # beyond the calendar
        minute = now.hour * 60 + now.minute
        if self.start < self.end:
            in_hours = self.start <= minute < self.end
        else:
            in_hours = minute >= self.start or minute < self.end
        return in_hours and now.weekday() in self.days


def _days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS or part.endswith("-"):
            raise ValueError(f"days are {', '.join(DAYS)}, joined by `-` or `,`")
        start = DAYS.index(first)
        days.update((start + step) % 7 for step in range((DAYS.index(last or first) - start) % 7 + 1))
    return frozenset(days)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"no time zone is called {name}") from None
