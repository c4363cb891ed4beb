"""Schedules on the wall clock, night by night."""

import unittest
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from nightly_backup.cron import InvalidSchedule, Schedule
from nightly_backup.zones import UnknownZone, zone


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def runs(schedule: str, zone_name: str, after: str, count: int) -> list[str]:
    """The next runs, as the clocks of the zone show them."""
    parsed, moment, found = Schedule.parse(schedule, zone(zone_name)), at(after), []
    for _ in range(count):
        following = parsed.next(moment)
        if following is None:
            break
        moment = following
        found.append(moment.astimezone(zone(zone_name)).isoformat(timespec="minutes"))
    return found


class Fields(unittest.TestCase):
    def test_a_schedule_names_what_cron_says_it_names(self) -> None:
        for schedule, after, expected in [
            ("0 2 * * *", "2026-01-01T02:00Z", ["2026-01-02T02:00", "2026-01-03T02:00"]),
            ("*/20 5 * * *", "2026-01-01T05:10Z", ["2026-01-01T05:20", "2026-01-01T05:40", "2026-01-02T05:00"]),
            (
                "10-30/10,55 0 * * *",
                "2026-01-01T00:00Z",
                ["2026-01-01T00:10", "2026-01-01T00:20", "2026-01-01T00:30", "2026-01-01T00:55"],
            ),
            ("0 0 1 jan,JUL *", "2026-01-01T00:00Z", ["2026-07-01T00:00", "2027-01-01T00:00"]),
            ("0 22 * * mon-fri", "2026-01-02T22:00Z", ["2026-01-05T22:00", "2026-01-06T22:00"]),
            ("0 0 * * 7", "2026-01-01T00:00Z", ["2026-01-04T00:00"]),
            ("0 0 * * 0", "2026-01-01T00:00Z", ["2026-01-04T00:00"]),
            ("0 0 31 * *", "2026-01-31T00:00Z", ["2026-03-31T00:00", "2026-05-31T00:00"]),
        ]:
            with self.subTest(schedule):
                found = runs(schedule, "Etc/UTC", after, len(expected))
                self.assertEqual(found, [f"{one}+00:00" for one in expected])

    def test_the_29th_of_february_comes_in_leap_years_alone(self) -> None:
        found = runs("0 3 29 2 *", "Etc/UTC", "2026-01-01T00:00Z", 2)
        self.assertEqual(found, ["2028-02-29T03:00+00:00", "2032-02-29T03:00+00:00"])
        self.assertEqual(runs("0 3 29 2 *", "Etc/UTC", "2096-03-01T00:00Z", 1), ["2104-02-29T03:00+00:00"])

    def test_day_of_month_and_day_of_week_are_either_enough_unless_one_begins_with_a_star(self) -> None:
        # 2026-02-13 is a Friday.
        either = runs("0 0 13 * fri", "Etc/UTC", "2026-02-01T00:00Z", 4)
        self.assertEqual([day[5:10] for day in either], ["02-06", "02-13", "02-20", "02-27"])
        both = runs("0 0 */13 * fri", "Etc/UTC", "2026-02-01T00:00Z", 2)
        self.assertEqual([day[:10] for day in both], ["2026-02-27", "2026-03-27"])

    def test_what_is_no_schedule_is_refused_in_words(self) -> None:
        for schedule, said in [
            ("0 2 * *", "'0 2 * *' has 4 fields, not five: minute, hour, day, month, weekday"),
            ("60 2 * * *", "minute '60' is not 0 to 59"),
            ("0 2 0 * *", "day of month '0' is not 1 to 31"),
            ("0 2 * foo *", "month 'foo' is not 1 to 12, or jan, feb, mar"),
            ("0 2 * * 8", "day of week '8' is not 0 to 7, or sun, mon"),
            ("0 22-2 * * *", "hour '22-2': the range 22-2 ends before it begins"),
            ("*/0 2 * * *", "minute '*/0': the step '0' is not a number from 1"),
            ("5/10 2 * * *", "minute '5/10': a step needs * or a range before it"),
            ("1,,2 2 * * *", "minute '1,,2': '' is not 0 to 59"),
            ("-1 2 * * *", "minute '-1': '' is not 0 to 59"),
            ("² 2 * * *", "minute '²' is not 0 to 59"),
        ]:
            with self.subTest(schedule), self.assertRaises(InvalidSchedule) as refused:
                Schedule.parse(schedule, UTC)
            self.assertIn(said, str(refused.exception))

    def test_a_day_that_no_month_has_never_comes(self) -> None:
        self.assertIsNone(Schedule.parse("0 0 30 2 *", UTC).next(at("2026-01-01T00:00Z")))
        self.assertIsNone(Schedule.parse("0 0 30 2 *", UTC).latest(at("2026-01-01T00:00Z")))

    def test_a_zone_that_is_none_is_refused_in_words(self) -> None:
        for name in ("Europe/Atlantis", "", "../zone", "/etc/passwd", "Europe"):
            with self.subTest(name), self.assertRaises(UnknownZone):
                zone(name)


class NightsTheClocksChange(unittest.TestCase):
    def test_a_time_in_the_gap_runs_once_at_the_first_moment_after_it(self) -> None:
        for schedule, name, after, expected in [
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-03-27T12:00Z",
                ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
            ),
            (
                "30 2 * * *",
                "America/New_York",
                "2026-03-06T12:00Z",
                ["2026-03-07T02:30-05:00", "2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
            ),
            # Half an hour only.
            ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z", ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
        ]:
            with self.subTest(name):
                self.assertEqual(runs(schedule, name, after, len(expected)), expected)

    def test_several_times_in_the_gap_are_one_run(self) -> None:
        found = runs("*/15 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00Z", 3)
        self.assertEqual(found, ["2026-03-29T03:00+02:00", "2026-03-29T03:15+02:00", "2026-03-29T03:30+02:00"])

    def test_a_time_that_comes_twice_runs_the_first_time(self) -> None:
        berlin = runs("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", 2)
        self.assertEqual(berlin, ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"])
        new_york = runs("30 1 * * *", "America/New_York", "2026-10-31T12:00Z", 2)
        self.assertEqual(new_york, ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"])

    def test_asked_within_the_second_telling_of_an_hour_the_next_run_lies_after_it(self) -> None:
        self.assertEqual(runs("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", 1), ["2026-10-26T02:30+01:00"])
        latest = Schedule.parse("30 2 * * *", zone("Europe/Berlin")).latest(at("2026-10-25T01:10Z"))
        self.assertEqual(latest, at("2026-10-25T00:30Z"))

    def test_a_day_that_a_zone_leaves_out_runs_when_the_next_begins(self) -> None:
        # Samoa went over the date line: no 30th of December 2011.
        found = runs("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00-10:00", 3)
        self.assertEqual(found, ["2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00", "2012-01-01T12:00+14:00"])

    def test_over_a_year_every_night_has_one_run_and_latest_is_the_way_back(self) -> None:
        for name in ("Europe/Berlin", "America/New_York", "Asia/Kolkata"):
            for schedule in ("30 2 * * *", "30 1 * * *", "0 3 * * *"):
                with self.subTest(name=name, schedule=schedule):
                    parsed, found = Schedule.parse(schedule, zone(name)), [at("2026-01-01T12:00Z")]
                    while len(found) <= 366:
                        found.append(parsed.next(found[-1]) or self.fail("no run"))
                    days = [run.astimezone(zone(name)).date() for run in found[1:]]
                    self.assertTrue(all(later - day == timedelta(days=1) for day, later in pairwise(days)))
                    for run, later in pairwise(found[1:]):
                        for until in (run, run + timedelta(minutes=1), later - timedelta(seconds=1)):
                            self.assertEqual(parsed.latest(until), run)


if __name__ == "__main__":
    unittest.main()
