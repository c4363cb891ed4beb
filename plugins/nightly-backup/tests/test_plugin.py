"""What the plugin decides, in the life of a NightlyBackup."""

import unittest
from pathlib import Path
from typing import Any

from guesthouse_sdk.testing import check, decide, observe, read_case
from nightly_backup import job_name, plugin

SPEC = {"schedule": "0 2 * * *", "timeZone": "Europe/Berlin", "image": "backup:1", "args": ["--all"], "historyLimit": 3}


class Backup:
    """An object and its children, as a host would keep them."""

    def __init__(self, created: str = "2026-11-28T12:00:00Z", **spec: Any) -> None:
        self.spec = SPEC | spec
        self.created = created
        self.status: dict[str, Any] = {}
        self.children: list[dict[str, Any]] = []

    def decide(self, now: str) -> dict[str, Any]:
        """What is decided at a time, without consequences."""
        metadata = {"name": "orders", "namespace": "shop", "creationTimestamp": self.created}
        backup = {"metadata": metadata, "spec": self.spec, "status": self.status}
        return decide(plugin, observe(backup, now=now, children=self.children))

    def settle(self, now: str) -> dict[str, Any]:
        """The decision at a time, carried out. What follows from it at once must be the same decision, but for events."""
        decision = self.decide(now)["decision"]
        wanted = {effect["id"]: effect["action"]["apply"]["object"] for effect in decision.get("effects", [])}
        self.status = decision["status"]["replace"]
        known = {child["effect"]: child for child in self.children}
        self.children = [known.get(id) or on_record(id, job["metadata"]["name"]) for id, job in wanted.items()]
        again = self.decide(now)["decision"]
        assert {**again, "events": None} == {**decision, "events": None}, (decision, again)
        return decision

    def end(self, at: str, state: str) -> None:
        [one] = [one for one in self.children if one["effect"] == at]
        one["state"] = state

    @property
    def results(self) -> list[tuple[str, str]]:
        return [(run["at"], run["result"]) for run in self.status["history"]]


def on_record(id: str, name: str, state: str = "inProgress") -> dict[str, Any]:
    kind = {"apiVersion": "batch/v1", "kind": "Job"}
    return {"effect": id, "object": {"kind": kind, "name": name}, "uid": f"{name}-uid", "state": state}


def made(decision: dict[str, Any]) -> list[str]:
    return [effect["id"] for effect in decision.get("effects", [])]


class Life(unittest.TestCase):
    def test_a_new_object_waits_for_its_first_run(self) -> None:
        decision = Backup().settle("2026-11-28T12:00:05Z")
        self.assertEqual(decision["wake"], {"at": "2026-11-29T01:00:00Z"})
        self.assertEqual(made(decision), [])
        self.assertTrue(decision["complete"])
        self.assertEqual(decision["status"]["replace"]["nextRun"], "2026-11-29T01:00:00Z")

    def test_nothing_depends_on_the_time_before_the_wake(self) -> None:
        backup = Backup()
        first = backup.settle("2026-11-28T12:00:05Z")
        for now in ("2026-11-28T12:00:06Z", "2026-11-28T23:59:59Z", "2026-11-29T00:59:59Z"):
            self.assertEqual(backup.decide(now), {"decision": first})
        self.assertNotEqual(backup.decide("2026-11-29T01:00:00Z"), {"decision": first})

    def test_a_run_is_a_job_named_after_object_and_time_and_made_once(self) -> None:
        backup = Backup()
        backup.settle("2026-11-28T12:00:05Z")
        decision = backup.settle("2026-11-29T01:00:00Z")
        [effect] = decision["effects"]
        self.assertEqual(effect["id"], "2026-11-29T01:00:00Z")
        apply = effect["action"]["apply"]
        self.assertEqual(apply["mode"], "once")
        self.assertEqual(apply["object"]["metadata"]["name"], "orders-202611290100")
        [container] = apply["object"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual((container["image"], container["args"]), ("backup:1", ["--all"]))
        self.assertEqual(decision["wake"], {"at": "2026-11-30T01:00:00Z"})
        self.assertEqual(backup.status["lastRun"], "2026-11-29T01:00:00Z")
        self.assertEqual(backup.status["lastResult"], "Running")

    def test_results_come_from_the_jobs_and_stay_when_those_are_gone(self) -> None:
        for state, result, reason in [
            ("current", "Succeeded", "Scheduled"),
            ("failed", "Failed", "BackupFailed"),
            ("absent", "Lost", "BackupFailed"),
            ("terminating", "Running", "Scheduled"),
        ]:
            with self.subTest(state):
                backup = Backup()
                backup.settle("2026-11-28T12:00:05Z")
                backup.settle("2026-11-29T01:00:00Z")
                backup.end("2026-11-29T01:00:00Z", state)
                told = backup.decide("2026-11-29T01:10:00Z")["decision"].get("events", [])
                self.assertEqual([event["type"] for event in told], ["warning"] if reason == "BackupFailed" else [])
                decision = backup.settle("2026-11-29T01:10:00Z")
                self.assertEqual(backup.results, [("2026-11-29T01:00:00Z", result)])
                self.assertEqual(decision["conditions"][0]["reason"], reason)
                if result != "Running":
                    backup.end("2026-11-29T01:00:00Z", "absent")
                    backup.settle("2026-11-29T09:00:00Z")
                    self.assertEqual(backup.results, [("2026-11-29T01:00:00Z", result)])

    def test_jobs_beyond_the_limit_are_no_longer_wanted_but_for_those_that_run(self) -> None:
        backup = Backup(historyLimit=2)
        backup.settle("2026-11-28T12:00:05Z")
        days = [f"2026-12-{day:02}T01:00:00Z" for day in range(1, 6)]
        for day in days:
            decision = backup.settle(day)
            if day != days[1]:
                backup.end(day, "current")
        self.assertEqual(made(decision), [days[4], days[3], days[1]])
        self.assertEqual(len(backup.status["history"]), 3)
        backup.end(days[1], "failed")
        self.assertEqual(made(backup.settle(days[4])), [days[4], days[3]])

    def test_without_a_history_the_last_run_is_still_known(self) -> None:
        backup = Backup(historyLimit=0)
        backup.settle("2026-11-28T12:00:05Z")
        self.assertEqual(made(backup.settle("2026-11-29T01:00:00Z")), ["2026-11-29T01:00:00Z"])
        backup.end("2026-11-29T01:00:00Z", "current")
        for _ in range(2):
            self.assertEqual(made(backup.settle("2026-11-29T01:10:00Z")), [])
            self.assertEqual(backup.status["lastRun"], "2026-11-29T01:00:00Z")
            self.assertEqual(backup.status["lastResult"], "Succeeded")

    def test_after_downtime_the_latest_missed_run_is_made_up_for_and_no_other(self) -> None:
        backup = Backup()
        backup.settle("2026-11-28T12:00:05Z")
        decision = backup.settle("2026-12-03T08:00:00Z")
        self.assertEqual(made(decision), ["2026-12-03T01:00:00Z"])
        self.assertEqual(decision["wake"], {"at": "2026-12-04T01:00:00Z"})

    def test_a_run_missed_before_the_object_was_ever_seen_is_made_up_for_too(self) -> None:
        decision = Backup().settle("2026-12-03T08:00:00Z")
        self.assertEqual(made(decision), ["2026-12-03T01:00:00Z"])

    def test_a_job_whose_pass_could_not_write_its_status_is_not_made_twice(self) -> None:
        backup = Backup()
        backup.settle("2026-11-28T12:00:05Z")
        before = backup.status
        backup.settle("2026-11-29T01:00:00Z")
        backup.status = before
        for now in ("2026-11-29T01:00:10Z", "2026-11-30T01:00:00Z"):
            decision = backup.decide(now)["decision"]
            self.assertIn("2026-11-29T01:00:00Z", made(decision))
            self.assertEqual(len(made(decision)), len(set(made(decision))))

    def test_while_suspended_nothing_is_run_and_what_is_missed_is_not_made_up_for(self) -> None:
        backup = Backup()
        backup.settle("2026-11-28T12:00:05Z")
        backup.settle("2026-11-29T01:00:00Z")
        backup.spec["suspend"] = True
        decision = backup.settle("2026-11-29T12:00:00Z")
        self.assertNotIn("wake", decision)
        self.assertNotIn("nextRun", backup.status)
        self.assertEqual(made(decision), ["2026-11-29T01:00:00Z"])
        self.assertEqual(backup.decide("2026-12-24T12:00:00Z"), {"decision": decision})
        backup.spec["suspend"] = False
        decision = backup.settle("2026-12-24T12:00:00Z")
        self.assertEqual(made(decision), ["2026-11-29T01:00:00Z"])
        self.assertEqual(decision["wake"], {"at": "2026-12-25T01:00:00Z"})

    def test_another_schedule_or_zone_counts_from_now(self) -> None:
        for change, expected in [
            ({"schedule": "0 1 * * *"}, "2026-11-30T00:00:00Z"),
            ({"schedule": "0 * * * *"}, "2026-11-29T13:00:00Z"),
            ({"timeZone": "America/New_York"}, "2026-11-30T07:00:00Z"),
        ]:
            with self.subTest(change):
                backup = Backup()
                backup.settle("2026-11-28T12:00:05Z")
                backup.settle("2026-11-29T01:00:00Z")
                backup.spec |= change
                decision = backup.settle("2026-11-29T12:00:00Z")
                self.assertEqual(decision["wake"], {"at": expected})
                self.assertEqual(made(decision), ["2026-11-29T01:00:00Z"])

    def test_another_image_is_for_the_next_run(self) -> None:
        backup = Backup()
        backup.settle("2026-11-28T12:00:05Z")
        backup.spec["image"] = "backup:2"
        self.assertEqual(backup.settle("2026-11-28T13:00:00Z")["wake"], {"at": "2026-11-29T01:00:00Z"})


class Nights(unittest.TestCase):
    """A week of passes at each wake, over the night the clocks change."""

    def runs(self, zone: str, schedule: str, created: str, count: int) -> list[str]:
        backup, now = (Backup(created, timeZone=zone, schedule=schedule, historyLimit=50), created)
        for _ in range(count):
            now = backup.settle(now)["wake"]["at"]
        return [run["at"] for run in reversed(backup.status["history"])]

    def test_in_spring_and_in_autumn_there_is_one_run_a_night(self) -> None:
        for zone, schedule, created, expected in [
            ("Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00Z", ["28T01:30", "29T01:00", "30T00:30"]),
            ("Europe/Berlin", "30 2 * * *", "2026-10-24T00:00:00Z", ["24T00:30", "25T00:30", "26T01:30"]),
            ("America/New_York", "30 2 * * *", "2026-03-07T00:00:00Z", ["07T07:30", "08T07:00", "09T06:30"]),
            ("America/New_York", "30 1 * * *", "2026-10-31T00:00:00Z", ["31T05:30", "01T05:30", "02T06:30"]),
        ]:
            with self.subTest(f"{zone} {created}"):
                self.assertEqual([run[8:16] for run in self.runs(zone, schedule, created, 4)], expected)


class Refusals(unittest.TestCase):
    def test_what_cannot_be_followed_stalls_and_says_why(self) -> None:
        for spec, reason, message in [
            ({"schedule": "0 25 * * *"}, "InvalidSchedule", "spec.schedule: hour '25' is not 0 to 23"),
            ({"schedule": "0 0 31 6 *"}, "InvalidSchedule", "spec.schedule: '0 0 31 6 *' never comes"),
            ({"timeZone": "Mars/Olympus"}, "InvalidTimeZone", "spec.timeZone: 'Mars/Olympus' is no time zone"),
        ]:
            with self.subTest(message):
                failure = Backup(**spec).decide("2026-11-29T01:00:00Z")["failure"]
                self.assertEqual((failure["kind"], failure["cause"]["reason"]), ("terminal", reason))
                self.assertIn(message, failure["cause"]["message"])


class Names(unittest.TestCase):
    def test_a_jobs_name_is_a_label_and_no_two_objects_share_it(self) -> None:
        names = ["orders", "a.b", "a-b", "x" * 50, "x" * 51, "x" * 253, "x" * 252 + "y", "v" * 40 + "." + "w" * 20]
        made = [job_name(name, "2026-11-29T01:00:00Z") for name in names]
        self.assertEqual(made[0], "orders-202611290100")
        self.assertEqual(len(set(made)), len(names))
        for name in made:
            self.assertLessEqual(len(name), 63)
            self.assertRegex(name, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")


class Cases(unittest.TestCase):
    def test_cases(self) -> None:
        for path in sorted(Path(__file__).with_name("cases").glob("*.json")):
            with self.subTest(path.stem):
                check(plugin, read_case(path))


if __name__ == "__main__":
    unittest.main()
