"""kill, rerun, hold, release, suspend, priority, clean: changing jobs; `resume` in queues.py answers like these."""

from __future__ import annotations

import argparse
from functools import partial

from grassq.cli import removal, render
from grassq.cli.connect import connect
from grassq.core.syntax.durations import duration_s
from grassq.errors import BadInput, GrassError
from grassq.net.client import Document, compact

#: The line about new jobs lists their ids if the ids take at most this many columns.
IDS_WIDTH = 40
_DEFAULTS = {
    "clean": " (default: all that have ended, after a question)",
    "rerun": " (default with --failed or --cancelled: all)",
}
_DONE = {"hold": "held", "release": "released", "clean": "removed"}
_NOTHING = {"rerun": "nothing to rerun: every failed job already has a later run"}


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    parser.add_argument(
        "selectors",
        metavar="SELECTOR",
        nargs="*",
        help="the jobs" + _DEFAULTS.get(name, ""),
    )
    if name != "rerun":
        parser.add_argument("--all", action="store_const", const=["all"], default=[], help="the same as `all`")
    if name == "rerun":
        help_ = "only failed jobs without a later run that succeeded or has not ended"
        parser.add_argument("--failed", action="store_true", help=help_)
        parser.add_argument("--cancelled", action="store_true", help="like --failed, for jobs that were cancelled")
        parser.add_argument("--dry-run", action="store_true", help="print what would be run again; submit nothing")
    if name == "kill":
        help_ = "time between SIGTERM and SIGKILL, such as 2s (default: that of each job, 10s)"
        grace = partial(duration_s, what="--grace", unit="s")
        parser.add_argument("--grace", metavar="DURATION", type=grace, dest="grace_s", help=help_)
    if name in ("kill", "rerun"):
        help_ = "the same for the jobs that start after these, and after them"
        parser.add_argument("--with-dependents", action="store_true", help=help_)
    if name == "suspend":
        help_ = "give the devices to other jobs meanwhile; the device memory of the job stays taken"
        parser.add_argument("--free", action="store_true", help=help_)
    if name == "priority":
        parser.add_argument("priority", metavar="N", type=int, help="larger is sooner; 30 is neutral")
    if name == "clean":
        help_ = "only jobs that ended longer ago than this, such as 7d"
        parser.add_argument("--older", metavar="DURATION", type=duration_s, dest="older_s", help=help_)
        parser.add_argument(
            "-y", "--yes", action="store_true", help="remove all jobs that have ended, without a question"
        )
        parser.add_argument("--dry-run", action="store_true", help="print what would be removed; remove nothing")
        help_ = "remove the jobs from all lists, but leave their logs and files in the folder `kept` of the home"
        parser.add_argument("--keep-logs", action="store_true", help=help_)
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document, with all ids")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only ids")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the ids of many jobs too")
    parser.set_defaults(run=change, verb=name)


#: The arguments that are parameters of an action.
GIVEN = ("grace_s", "priority", "older_s", "failed", "cancelled", "keep_logs", "with_dependents", "free")


def change(arguments: argparse.Namespace) -> int:
    """Change the selected jobs and print the result."""
    verb = arguments.verb
    selectors = arguments.selectors + getattr(arguments, "all", [])
    if verb == "kill" and (jobs := [each for each in selectors if not each.startswith("-")]) != selectors:
        raise _no_signal(jobs)
    if not selectors and verb == "rerun" and not (arguments.failed or arguments.cancelled):
        raise BadInput("name the jobs to rerun, or use --failed; see `grass rerun --help`")
    if not selectors and verb not in ("rerun", "clean"):
        every = "all N" if verb == "priority" else "all"
        raise BadInput(f"name the jobs, or write `grass {verb} {every}`; see `grass {verb} --help`")
    given = {name: getattr(arguments, name, None) for name in GIVEN}
    with connect(arguments.broker) as client:
        if verb == "clean":
            asks = not (selectors or arguments.yes or arguments.older_s is not None)
            selectors = selectors or ["all"]
            if arguments.dry_run or asks:
                would = client.change("jobs/clean", selectors=selectors, older_s=arguments.older_s, dry_run=True)
                if not removal.is_agreed(would, is_dry=arguments.dry_run, as_json=arguments.json):
                    return 0
                given["ended_by"] = would["ended_by"]
        if verb == "rerun" and arguments.dry_run:
            return _would_rerun(client.change("jobs/rerun", selectors=selectors, dry_run=True, **given), arguments)
        answer = client.change(f"jobs/{verb}", selectors=selectors, **given)
    try:
        report(arguments, answer)
    except BrokenPipeError:
        raise
    except OSError as error:
        if verb != "rerun":
            raise
        raise GrassError(f"stored as {','.join(compact(answer['ids']))}, but {render.reason(error)}") from error
    render.notes(answer.get("notes", []))
    if left := answer.get("left", {}).get("jobs"):
        render.notes([removal.still_there(left, answer["left"])])
    return 0


def _would_rerun(answer: Document, arguments: argparse.Namespace) -> int:
    """Print what a rerun would submit."""
    if arguments.json:
        return render.document(answer)
    ids = answer.get("ids", [])
    if arguments.quiet:
        render.text("".join(f"{id_}\n" for id_ in ids))
        return 0
    jobs = f"{len(ids)} {'job' if len(ids) == 1 else 'jobs'}"
    render.line(f"{jobs} would be run again: {','.join(compact(ids))}" if ids else _NOTHING["rerun"])
    render.notes([*answer.get("notes", []), "nothing was submitted"])
    return 0


def _no_signal(jobs: list[str]) -> BadInput:
    return BadInput(
        f"`grass kill` sends SIGTERM, then SIGKILL; to kill at once: grass kill --grace 0 {' '.join(jobs)}".rstrip()
    )


def report(arguments: argparse.Namespace, answer: Document) -> None:
    """Print what became of the jobs of an action."""
    ids, jobs = answer.get("ids", []), answer.get("jobs", [])
    if arguments.json:
        render.document(answer)
    elif arguments.quiet:
        render.text("".join(f"{id_}\n" for id_ in ids))
    elif not ids and arguments.verb != "clean":
        if not answer.get("notes"):
            render.line(_NOTHING.get(arguments.verb, f"no job to {arguments.verb}"))
    elif jobs and arguments.verb != "clean":
        for job in jobs:
            render.line(_sentence(arguments.verb, job, answer))
    else:
        render.line(_summary(arguments, answer, len(ids)))
        if arguments.verbose:
            render.text("".join(f"{each}\n" for each in compact(ids)))


def _sentence(verb: str, job: Document, answer: Document) -> str:
    """Return the sentence about one job."""
    if verb == "rerun":
        return f"job {job['id']} is a rerun of job {job.get('rerun_of')}"
    if verb == "kill":
        stopped = job.get("state") == "cancelled"
        return f"job {job['id']}: cancelled" if stopped else f"job {job['id']}: asked to stop ({_killed(answer)})"
    if verb == "priority":
        return f"job {job['id']} has priority {job.get('priority')}"
    if verb in ("suspend", "resume"):
        return f"job {job['id']}: {suspended(job)}"
    return f"job {job['id']} is {_DONE[verb]}"


def _summary(arguments: argparse.Namespace, answer: Document, count: int) -> str:
    """Return the sentence about many jobs."""
    jobs = f"{count} {'job' if count == 1 else 'jobs'}"
    if arguments.verb == "kill":
        stopping = answer.get("stopping", 0)
        parts = [f"{stopping} asked to stop ({_killed(answer)})"] if stopping else []
        parts += [f"{count - stopping} cancelled"] if count > stopping else []
        return f"{jobs}: {', '.join(parts)}"
    if arguments.verb == "rerun":
        which = ",".join(compact(answer["ids"]))
        return f"submitted {jobs} again" + (f": {which}" if len(which) <= IDS_WIDTH else "")
    if arguments.verb == "priority":
        return f"{jobs}: priority {arguments.priority}"
    if arguments.verb in ("suspend", "resume"):
        freed = "; their devices are given back" if getattr(arguments, "free", False) else ""
        return f"{jobs}: " + (f"told to stop{freed}" if arguments.verb == "suspend" else "told to go on")
    return f"{_DONE[arguments.verb]} {jobs}" + (
        _kept(answer) if count and getattr(arguments, "keep_logs", False) else ""
    )


def suspended(job: Document) -> str:
    """Return what becomes of a job that was suspended or resumed."""
    word, id_ = job.get("suspended"), job["id"]
    if word == "freed":
        return f"suspended, and its devices are given back; `grass resume {id_}` lets it go on when they have room"
    if word == "kept":
        return f"told to stop; `grass resume {id_}` lets it go on"
    return "told to go on" if word == "resuming" else str(job.get("reason") or job.get("state"))


def _kept(answer: Document) -> str:
    """Return where the logs of removed jobs are kept, as the end of a sentence."""
    ids, folder = answer.get("ids") or [], answer.get("kept")
    one = ids[0] if len(ids) == 1 else None
    logs = "; their logs are kept" if one is None else "; its log is kept"
    return logs + (f" in {folder}/{'ID' if one is None else one}" if folder else "")


def _killed(answer: Document) -> str:
    graces = [f"{grace_s:g}s" for grace_s in answer.get("grace_s") or []]
    # The answer to a repeated request has no times.
    return f"killed after {' to '.join(dict.fromkeys(graces))}" if graces else "then killed"
