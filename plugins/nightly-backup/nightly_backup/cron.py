"""Five-field cron schedules on the wall clock of a time zone.

A time on the wall that does not exist, since the clocks jump over it, runs at the first moment after the jump; one that comes
twice runs the first time. So every time that a schedule names runs once, on the nights the clocks change, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

#: Name, least and greatest number, and names for numbers.
FIELDS: list[tuple[str, int, int, dict[str, int]]] = [
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(MONTHS, 1)}),
    ("day of week", 0, 7, {name: number for number, name in enumerate(WEEKDAYS)}),
]

#: How far a schedule is followed. The 29th of February on a given weekday may be 40 years away.
HORIZON = timedelta(days=41 * 366)


class InvalidSchedule(ValueError):
    """A text that is no schedule."""


@dataclass(frozen=True)
class Schedule:
    """What a schedule names, each in order; weekdays count from Sunday, 0."""

    zone: tzinfo
    minutes: list[int]
    hours: list[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    #: Vixie's rule: where day of month and day of week are both restricted, either is enough.
    either: bool

    @classmethod
    def parse(cls, text: str, zone: tzinfo) -> "Schedule":
        """Reads `minute hour day-of-month month day-of-week`."""
        fields = text.split()
        if len(fields) != len(FIELDS):
            raise InvalidSchedule(f"{text!r} has {len(fields)} fields, not five: minute, hour, day, month, weekday")
        minutes, hours, days, months, weekdays = (
            _values(field, *meaning) for field, meaning in zip(fields, FIELDS, strict=True)
        )
        either = not fields[2].startswith("*") and not fields[4].startswith("*")
        sundays = {day % 7 for day in weekdays}
        return cls(zone, sorted(minutes), sorted(hours), days, months, sundays, either)

    def next(self, after: datetime) -> datetime | None:
        """The first run after a moment; None: there is none."""
        # No earlier time on the wall can come later: what comes twice counts the first time.
        wall = after.astimezone(self.zone).replace(tzinfo=None)
        return next((run for run in map(self._moment, self._walls(wall, 1)) if run > after), None)

    def latest(self, until: datetime) -> datetime | None:
        """The last run up to a moment, that moment included; None: there was none."""
        local = until.astimezone(self.zone)
        wall = local.replace(tzinfo=None)
        if local.fold:
            # An hour is told again, and later times on the wall were there already: begin where the first telling ended.
            first, second = local.replace(fold=0).utcoffset(), local.utcoffset()
            wall += (first or timedelta()) - (second or timedelta())
        return next((run for run in map(self._moment, self._walls(wall, -1)) if run <= until), None)

    def _walls(self, start: datetime, step: int) -> Iterator[datetime]:
        """The times on the wall from one on, that one included; backwards by a step of -1."""
        for away in range(HORIZON.days):
            day = start.date() + timedelta(days=step * away)
            if not self._falls_on(day):
                continue
            for hour in self.hours[::step]:
                for minute in self.minutes[::step]:
                    wall = datetime(day.year, day.month, day.day, hour, minute)
                    if wall == start or (wall > start) == (step > 0):
                        yield wall

    def _falls_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        matches = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return any(matches) if self.either else all(matches)

    def _moment(self, wall: datetime) -> datetime:
        """When a time on the wall is."""
        local = wall.replace(tzinfo=self.zone)
        moment = local.astimezone(UTC)
        if moment.astimezone(self.zone).replace(tzinfo=None) == wall:
            return moment
        # The clocks jump over it. By the offset after the jump it lies before it, and the other way round; that moment is
        # sought at which the clock begins to read more.
        before, second = local.replace(fold=1).astimezone(UTC), timedelta(seconds=1)
        while moment - before > second:
            middle = before + (moment - before) // 2 // second * second
            if middle.astimezone(self.zone).replace(tzinfo=None) < wall:
                before = middle
            else:
                moment = middle
        return moment


def _values(field: str, name: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """What one field names: `*`, numbers and names, lists, ranges, steps."""

    def number(text: str) -> int:
        value = names.get(text.lower(), -1) if not (text.isascii() and text.isdigit()) else int(text)
        if not low <= value <= high:
            also = f", or {', '.join(names)}" if names else ""
            within = "" if text == field else f": {text!r}"
            raise InvalidSchedule(f"{name} {field!r}{within} is not {low} to {high}{also}")
        return value

    values: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if slash and not (step.isascii() and step.isdigit() and int(step)):
            raise InvalidSchedule(f"{name} {field!r}: the step {step!r} is not a number from 1")
        if slash and span != "*" and not dash:
            raise InvalidSchedule(f"{name} {field!r}: a step needs * or a range before it")
        begin, end = (low, high) if span == "*" else (number(first), number(last if dash else first))
        if begin > end:
            raise InvalidSchedule(f"{name} {field!r}: the range {span} ends before it begins")
        values.update(range(begin, end + 1, int(step or 1)))
    return values
