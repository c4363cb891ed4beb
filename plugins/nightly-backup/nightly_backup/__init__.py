"""`backup.acme.io/v1 NightlyBackup`: a Job at each time that a cron schedule names in a time zone.

What must be remembered is in the status: `nextRun`, computed once and then waited for, and the runs that were made. So the
decision is a function of the object and its children, and the time only says whether `nextRun` has come. What was missed
while nobody looked is caught up by one run, the latest.
"""

from datetime import UTC, datetime
from typing import Any, Literal, NotRequired, TypedDict

from guesthouse_sdk import Apply, Child, Decision, Kind, Observation, Plugin, Stall, fingerprint

from .cron import InvalidSchedule, Schedule
from .zones import UnknownZone, zone

plugin = Plugin(
    "nightly-backup",
    "0.1.0",
    serves=[Kind("backup.acme.io/v1", "NightlyBackup")],
    grants={"apply": [{"apiVersion": "batch/v1", "kind": "Job"}]},
)

#: What `status.schedule` says while nothing is scheduled.
SUSPENDED = "suspended"

Result = Literal["Running", "Succeeded", "Failed", "Lost"]


class Spec(TypedDict):
    schedule: str
    timeZone: NotRequired[str]
    image: str
    args: NotRequired[list[str]]
    historyLimit: NotRequired[int]
    suspend: NotRequired[bool]


class Run(TypedDict):
    #: The time that the schedule names, whenever the Job was made; the id of its effect, too.
    at: str
    job: str
    result: Result


class Status(TypedDict, total=False):
    #: What `nextRun` follows; another one begins anew.
    schedule: str
    nextRun: str
    lastRun: str
    lastResult: Result
    #: The latest first.
    history: list[Run]


Seen = Observation[Spec, Status]


@plugin.reconcile
def reconcile(seen: Seen) -> Decision:
    decision, schedule, now = Decision(), scheduled(seen.spec), moment(seen.now)
    runs = known_runs(seen)
    status: Status = {"schedule": SUSPENDED}
    if not seen.spec.get("suspend"):
        status = {"schedule": followed(seen.spec)}
        due = due_run(seen, schedule)
        if due and due <= now:
            # Or a later one, if more than one was missed.
            due = schedule.latest(now) or due
            if text(due) not in [run["at"] for run in runs]:
                run: Run = {"at": text(due), "job": job_name(seen.name, text(due)), "result": "Running"}
                runs = [run, *runs]
                decision.event("Started", f"job {run['job']}")
            due = schedule.next(due)
        if due is None:
            raise Stall("InvalidSchedule", f"spec.schedule: {seen.spec['schedule']!r} never comes")
        status["nextRun"] = text(due)
        decision.wake_at(text(due))
    return report(seen, decision, status, runs)


def scheduled(spec: Spec) -> Schedule:
    try:
        return Schedule.parse(spec["schedule"], zone(spec.get("timeZone", "Etc/UTC")))
    except InvalidSchedule as error:
        raise Stall("InvalidSchedule", f"spec.schedule: {error}") from error
    except UnknownZone as error:
        raise Stall("InvalidTimeZone", f"spec.timeZone: {error}") from error


def followed(spec: Spec) -> str:
    """Schedule and zone, as `status.schedule` says them."""
    return f"{' '.join(spec['schedule'].split())} {spec.get('timeZone', 'Etc/UTC')}"


def due_run(seen: Seen, schedule: Schedule) -> datetime | None:
    """The run that is waited for. A new object counts from its creation; a schedule that was changed or resumed from now."""
    status = seen.status
    if "nextRun" in status and status.get("schedule") == followed(seen.spec):
        return moment(status["nextRun"])
    since = seen.now if "schedule" in status else seen.metadata.get("creationTimestamp", seen.now)
    return schedule.next(moment(since))


def known_runs(seen: Seen) -> list[Run]:
    """The runs that were made, the latest first, and what became of them."""
    runs = list(seen.status.get("history", []))
    newest = runs[0]["at"] if runs else ""
    # Made by a pass that could not write its status any more.
    unwritten = sorted((child for child in seen.children if child.effect > newest), key=lambda child: child.effect)
    for child in unwritten:
        runs.insert(0, {"at": child.effect, "job": child.object.name, "result": "Running"})
    return [{**run, "result": result(run["result"], seen.child(run["at"]))} for run in runs]


def result(known: Result, child: Child | None) -> Result:
    """What became of a run; what has ended stays as it ended, also when its Job is gone."""
    if known != "Running" or child is None:
        return known
    match child.state:
        case "current":
            return "Succeeded"
        case "failed":
            return "Failed"
        case "absent" if child.uid:
            return "Lost"
        case _:
            return "Running"


def report(seen: Seen, decision: Decision, status: Status, runs: list[Run]) -> Decision:
    """The decision with status, condition and all Jobs that shall be there: what runs, and the history within its limit."""
    limit = seen.spec.get("historyLimit", 3)
    kept = [run for place, run in enumerate(runs) if place < limit or run["result"] == "Running"]
    before = {run["at"]: run["result"] for run in seen.status.get("history", [])}
    for run in runs:
        if run["result"] in ("Failed", "Lost") and before.get(run["at"]) == "Running":
            decision.warning("BackupFailed", f"job {run['job']}: {run['result'].lower()}")
    if last := runs[0] if runs else None:
        status["lastRun"], status["lastResult"] = last["at"], last["result"]
    elif "lastRun" in seen.status:
        status["lastRun"], status["lastResult"] = seen.status["lastRun"], seen.status["lastResult"]
    status["history"] = kept
    ended = next((run["result"] for run in runs if run["result"] != "Running"), status.get("lastResult"))
    if ended in ("Failed", "Lost"):
        decision.condition("Ready", False, "BackupFailed", f"the last run {'failed' if ended == 'Failed' else 'was lost'}")
    else:
        decision.condition("Ready", True, "Suspended" if status["schedule"] == SUSPENDED else "Scheduled")
    return decision.status(status).children([Apply(run["at"], job(seen, run), mode="once") for run in kept])


def job(seen: Seen, run: Run) -> dict[str, Any]:
    container = {"name": "backup", "image": seen.spec["image"], "args": seen.spec.get("args", [])}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": run["job"], "annotations": {"backup.acme.io/scheduled-at": run["at"]}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def job_name(name: str, at: str) -> str:
    """The object's name and the run's minute, `orders-202611290100`: a DNS label, since pods are named after it."""
    minute = "".join(digit for digit in at if digit.isdigit())[:12]
    label = name.replace(".", "-")
    if label != name or len(label) > 63 - 1 - len(minute):
        # Cut, with what tells it from others that are cut to the same.
        label = f"{label[: 63 - 2 - 8 - len(minute)].rstrip('-')}-{fingerprint([name])[:8]}"
    return f"{label}-{minute}"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
