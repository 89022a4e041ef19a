"""Applies a sweep in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from grassq import home as homes
from grassq.net.client import ApiClient, read_printed
from grassq.net.encoding import BYTES_MAX, enqueue_body, new_key
from grassq.sdk.notices import warn
from grassq.sdk.submission import sent_manifests

if TYPE_CHECKING:
    from grassq.sdk.job_list import JobList

#: The values of each parameter at one point.
Point = dict[str, str]


class SweepFileResult(NamedTuple):
    """What was done with a sweep in a file, or would be done."""

    name: str
    #: The id of the sweep's first job; None before it has one.
    sweep: int | None
    dry_run: bool
    #: The new jobs, and the ids of unfinished jobs that were ended.
    jobs: JobList
    ended: list[int]
    #: How many points are new, changed, to run again because they failed, kept, and gone from the file.
    counts: dict[str, int]
    #: These points, at most 1,000 of each kind.
    new: list[Point]
    changed: list[Point]
    again: list[Point]
    kept: list[Point]
    gone: list[Point]


def apply_file(
    api: ApiClient, file: str, handles: Callable[[Iterable[int]], JobList], *, dry_run: bool, prune: bool
) -> SweepFileResult:
    """Apply a sweep in a file; raise BadInput with the file and the line for whatever is wrong in it."""
    from grassq.inputs.sweep_files import line_text, read_sweep_input

    read = read_sweep_input(file)
    words = ["--stdin", "--json", *read.words]
    project = (homes.project() if api.broker is not None else "") or homes.tree_project()
    if project and not any(word.partition("=")[0] == "--project" for word in read.words):
        words.append(f"--project={project}")
    raw, lines = [os.fsencode(word) for word in words], line_text(len(read.lines), iter(read.lines), BYTES_MAX)
    asked = {"apply": True, "prune": prune, "dry_run": dry_run, "definition": read.definition}
    sender, parameters, more = homes.Sender.to(api.broker), json.dumps(read.parameters), f'"sweep":{json.dumps(asked)}'

    def ask(sent: list[str] | None) -> tuple[Mapping[str, str], Any, str]:
        body = enqueue_body(raw, sender, new_key(), "sweep", lines, sent, parameters, more)
        return read_printed(api.enqueue(body), api.broker)

    headers, told, said = ask(None)
    if "grass-send" in headers:
        # The daemon has checked the rest by now.
        headers, told, said = ask(sent_manifests(told, api.home, api.broker))
    warn([line.removeprefix("grass: ") for line in said.splitlines()])
    first, count = told["first"], told["count"]
    made = handles(range(first, first + count) if count else ())
    return SweepFileResult(**{name: told[name] for name in SweepFileResult._fields if name != "jobs"}, jobs=made)
