"""show: what runs, what is next and what failed on one screen, or selected jobs as a table.

The most frequent command, so it imports neither argparse nor `json` nor `datetime`.
"""

from __future__ import annotations

import os

from grassq.cli import job_text, render
from grassq.cli.fast import find_target, warn
from grassq.errors import BadInput, Unreachable
from grassq.net.encoding import parse, query
from grassq.net.retry import fetch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from grassq.net.http import Connection

#: Jobs of a long answer that are printed at once; the first decide the width of the columns.
ROWS_AT_ONCE = 200
#: The most rows of a table, and the most jobs that are sorted or drawn as a tree. JSON and ids have no such bound.
ROWS_MAX = 10_000
SORTED_MAX = 200_000
#: The failed jobs that a pipe is told of below its table.
FAILED_ROWS = 5

STATES_HELP = """\
states:
  held         kept by `grass hold`, --hold or three lost attempts, until `grass release`
  waiting      cannot start yet: it starts after other jobs, at a time or after a delay, or its queue does not exist
  queued       starts as soon as its resources are free
  placed       has its resources and is starting
  running      runs
  succeeded    ended with exit code 0
  failed       ended otherwise, or could not be started
  cancelled    ended by `grass kill`
  unreachable  its worker is not heard from; it probably keeps running
"""


class ShowOptions:
    """What was typed beside the selectors."""

    def __init__(self) -> None:
        self.as_json = self.as_lines = self.quiet = self.is_long = self.as_tree = False
        self.columns: list[str] | None = None
        self.sort: str | None = None
        #: As typed: under --watch a duration goes along with the clock, and a time stays.
        self.since: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the screen or the table is as without an option."""
        picked = self.columns is None and self.sort is None and self.since is None
        return picked and not (self.is_long or self.as_tree)


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `show`."""
    from argparse import RawDescriptionHelpFormatter

    from grassq.cli.listing.columns import COLUMNS

    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = f"{STATES_HELP}\ncolumns of -o and --sort:\n{_wrapped(COLUMNS)}"
    parser.add_argument("selectors", metavar="SELECTOR", nargs="*", help="jobs (default: the current ones)")
    parser.add_argument("-a", "--all", action="store_const", const=["all"], default=[], help="the same as `all`")
    parser.set_defaults(run=_show)
    parser.add_argument("-o", "--columns", metavar="COLUMNS", help="show these columns; +COLUMN adds to the usual ones")
    parser.add_argument("--sort", metavar="COLUMN", help="sort by a column; --sort=-COLUMN reverses the order")
    since = f"jobs that have not ended, or ended since a time: {job_text.SINCE_HELP}"
    parser.add_argument("--since", metavar="TIME", help=since)
    parser.add_argument("-l", "--long", action="store_true", help="all columns and whole commands, however wide")
    parser.add_argument(
        "--tree",
        action="store_true",
        help="sweeps with their jobs, reruns below their originals, and jobs below those they start after",
    )
    parser.add_argument(
        "--watch", metavar="SECONDS", nargs="?", const="", help="draw again every 2 or SECONDS seconds, until Ctrl-C"
    )
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as a JSON document")
    parser.add_argument("--json-lines", action="store_true", help="print one JSON document per job and line")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only ids")


def _wrapped(names: Mapping[str, object]) -> str:
    import textwrap

    return textwrap.fill(", ".join(names), 100, initial_indent="  ", subsequent_indent="  ") + "\n"


def _show(arguments: argparse.Namespace) -> int:
    selectors, options = arguments.selectors + arguments.all, ShowOptions()
    options.as_json, options.as_lines, options.quiet = arguments.json, arguments.json_lines, arguments.quiet
    options.is_long, options.as_tree = arguments.long, arguments.tree
    if sum((options.as_json, options.as_lines, options.quiet)) > 1:
        raise BadInput("--json, --json-lines and -q exclude each other")
    from grassq.cli.listing import columns

    if arguments.columns is not None:
        options.columns = columns.chosen(arguments.columns)
    if arguments.sort is not None:
        columns.known(arguments.sort.removeprefix("-"), "--sort")
        options.sort = arguments.sort
    if arguments.since is not None:
        job_text.since_s(arguments.since, job_text.now())
        options.since = arguments.since
    if (typed := arguments.watch) is not None:
        # In `show --watch running` the word is a selector.
        is_time = typed[:1].isdigit()
        return _watch(
            selectors if is_time or not typed else [typed, *selectors],
            options,
            arguments.broker,
            typed if is_time else "",
        )
    return show(selectors, options, broker=arguments.broker)


def _watch(selectors: Sequence[str], options: ShowOptions, broker: str | None, typed: str) -> int:
    from grassq.cli.listing import watch
    from grassq.core.syntax.durations import duration_s

    every_s = duration_s(typed, "--watch", unit="s") if typed else watch.EVERY_S
    show_ = Show(selectors, options, broker)

    def draw() -> list[str]:
        lines = show_.lines()
        # The user may have stopped the daemon meanwhile: a screen does not start it again.
        show_.autostart = False
        return lines

    return watch.watch(draw, every_s)


def show(selectors: Sequence[str], options: ShowOptions | None = None, *, broker: str | None = None) -> int:
    """Print jobs; without a selector also queues, workers and totals; if `quiet`, only the ids of jobs."""
    return Show(selectors, options or ShowOptions(), broker).run()


class Show:
    """One call of `show`; under --watch, one that is repeated."""

    def __init__(self, selectors: Sequence[str], options: ShowOptions, broker: str | None) -> None:
        self._selectors = selectors
        self._options = options
        self._target, self._address = find_target(broker)
        #: Whether a daemon is started if none runs.
        self.autostart = True
        self._has_warned = False
        self._is_terminal = os.isatty(1)
        is_data = options.as_json or options.as_lines or options.quiet
        self._is_screen = not selectors and options.is_plain and not is_data
        self._width = render.width() if self._is_terminal else None

    def run(self) -> int:
        """Ask once and print."""
        answer, jobs = self._ask()
        options = self._options
        if options.as_json:
            return self._print_json(answer, jobs)
        if options.as_lines and jobs.is_streamed:
            for line in jobs.lines():
                render.write(line + b"\n")
            return 0
        if options.as_lines or options.quiet:
            for some in jobs:
                self._print_data(some)
            return 0
        if jobs.is_streamed and options.sort is None and not options.as_tree:
            return self._print_stream(answer, jobs)
        found = self._collected(jobs)
        if self._is_screen and not self._is_terminal:
            return self._print_for_a_pipe(answer, found)
        _put(self._drawn(answer, found))
        if len(found) > ROWS_MAX and not options.as_tree:
            _say_cut()
        if answer.get("restored") and not self._selectors:
            from grassq.cli.listing.machines import print_restored

            print_restored(answer)
        return self._say_more(answer)

    def lines(self) -> list[str]:
        """Ask once and return the lines of a screen; JSON is one line."""
        self._width = render.width() if self._is_terminal else None
        answer, jobs = self._ask()
        found = self._collected(jobs)
        if self._options.as_json or self._options.as_lines or self._options.quiet:
            import json

            if self._options.quiet:
                return [str(job.get("id")) for job in found]
            if self._options.as_lines:
                return [json.dumps(job) for job in found]
            return [json.dumps({**answer, "jobs": found})]
        # One line tells when the screen was drawn.
        return self._drawn(answer, found, render.height() - 1)

    def _ask(self) -> tuple[dict[str, Any], _Jobs]:
        """Send the request; return the answer without its jobs, and its jobs."""
        options = self._options
        pairs: list[tuple[str, object]] = [("selector", each) for each in self._selectors]
        if self._is_screen and self._is_terminal:
            pairs.append(("brief", 1))
        if (look := self._look()) is not None:
            pairs.append(("look", look))
        if options.since is not None:
            pairs.append(("within_s", int(job_text.since_s(options.since, job_text.now()))))
        response, parts, connection = fetch(self._target, "/v1/show" + query(pairs), autostart=self.autostart)
        if self._address is None and not self._has_warned:
            warn(response.headers)
            self._has_warned = True
        if parts is not None:
            if options.as_json:
                return {}, _Jobs(parts=parts, connection=connection)
            lines = _lines(parts)
            return _document(next(lines) + b"]}"), _Jobs(lines=lines, connection=connection)
        if response.status != 200:
            from grassq.net.client import read_answer

            read_answer(response, self._address)  # raises the error
        answer = _document(response.body)
        return answer, _Jobs(jobs=answer.get("jobs", []))

    def _look(self) -> str | None:
        """Return of which jobs it is wanted what their logs say; it takes the daemon some milliseconds."""
        options = self._options
        if options.quiet:
            return None
        if options.as_json or options.as_lines:
            return "1" if options.is_long else None
        if options.columns is not None:
            from grassq.cli.listing.columns import LOOKING

            return None if LOOKING.isdisjoint(options.columns) else "1"
        if self._is_screen and not self._is_terminal:
            return "failed"
        return "1" if self._is_terminal or options.is_long else None

    def _print_json(self, answer: dict[str, Any], jobs: _Jobs) -> int:
        if jobs.parts is None:
            return render.document(answer)
        for part in jobs.parts:
            render.write(part)
        jobs.close()
        return 0

    def _print_data(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        if self._options.quiet:
            for job in jobs:
                render.line(str(job.get("id")))
            return
        import json

        render.text("".join(json.dumps(job) + "\n" for job in jobs))

    def _print_stream(self, answer: dict[str, Any], jobs: _Jobs) -> int:
        """Print a long answer as it comes, up to ROWS_MAX rows."""
        table, count = self._table(answer, is_whole=False), 0
        for some in jobs:
            kept = some[: ROWS_MAX - count]
            count += len(kept)
            _put(table.lines(kept))
            if count >= ROWS_MAX:
                jobs.close()
                _say_cut()
                break
        return 0

    def _collected(self, jobs: _Jobs) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for some in jobs:
            found += some
            if len(found) > SORTED_MAX:
                jobs.close()
                raise BadInput(f"these are more than {SORTED_MAX:,} jobs; select fewer, or use --json-lines")
        return found

    def _table(self, answer: Mapping[str, Any], *, is_whole: bool) -> Any:
        from grassq.cli.listing.table import JobsTable

        options = self._options
        return JobsTable(answer, is_whole=is_whole, names=options.columns, is_long=options.is_long, width=self._width)

    def _drawn(self, answer: Mapping[str, Any], jobs: list[Mapping[str, Any]], height: int | None = None) -> list[str]:
        """Return the lines of a screen or of a table; a screen fits the height, if one is given."""
        now = job_text.now()
        if self._is_screen and self._width is not None:
            from grassq.cli.listing.machines import machine_lines
            from grassq.cli.listing.screen import OverviewScreen

            coloured = render.has_colours()
            machines = machine_lines(answer, self._width, coloured=coloured)
            screen = OverviewScreen(answer, self._width, render.height(), coloured=coloured, now=now)
            if height is None:
                return screen.lines() + machines
            lines = screen.fitted(height - len(machines)) + machines
            # On a small screen the jobs matter more than where they run.
            return lines if len(lines) <= height else screen.fitted(height)
        if len(jobs) == 1 and _names_one(self._selectors) and self._options.is_plain:
            from grassq.cli.listing.one_job import one_job_lines

            return one_job_lines(jobs[0], now)
        if not jobs:
            return ["no jobs"]
        table = self._table(answer, is_whole=True)
        if self._options.sort is not None:
            from grassq.cli.listing.table import sort

            jobs = sort(jobs, self._options.sort, table.context)
        if self._options.as_tree:
            from grassq.cli.listing.tree import as_tree

            return list(table.lines(*as_tree(jobs)))
        return list(table.lines(jobs[:ROWS_MAX]))

    def _print_for_a_pipe(self, answer: Mapping[str, Any], jobs: list[Mapping[str, Any]]) -> int:
        """Print what scripts read: every job in one table, then failures and sweeps, queues, workers and totals."""
        from grassq.cli.listing import machines

        if jobs:
            _put(self._table(answer, is_whole=True).lines(jobs))
            machines.print_told(answer, [job for job in jobs if job.get("state") == "failed"][-FAILED_ROWS:])
        else:
            render.text("no jobs\n")
        machines.print_machines(answer)
        return self._say_more(answer)

    def _say_more(self, answer: Mapping[str, Any]) -> int:
        if answer.get("more"):
            render.notes(["there are more jobs; `grass show all` prints them"])
        return 0


class _Jobs:
    """The jobs of an answer, some at a time: all at once, or as they come."""

    def __init__(
        self,
        *,
        jobs: list[Any] | None = None,
        lines: Iterator[bytes] | None = None,
        parts: Iterator[bytes] | None = None,
        connection: Connection | None = None,
    ) -> None:
        #: The bytes of an answer that is printed as it is.
        self.parts = parts
        self._jobs, self._incoming, self._connection = jobs, lines, connection

    @property
    def is_streamed(self) -> bool:
        """Whether the answer comes in parts."""
        return self._jobs is None

    def __iter__(self) -> Iterator[list[Mapping[str, Any]]]:
        if self._incoming is None:
            yield self._jobs or []
            return
        jobs: list[Mapping[str, Any]] = []
        for line in self.lines():
            jobs.append(_document(line))
            if len(jobs) >= ROWS_AT_ONCE:
                yield jobs
                jobs = []
        yield jobs

    def lines(self) -> Iterator[bytes]:
        """Yield each job of a streamed answer as it was written."""
        for line in self._incoming or ():
            if line != b"]}":
                yield line.removesuffix(b",")
        self.close()

    def close(self) -> None:
        """End the connection; the rest of the answer is not wanted."""
        if self._connection is not None:
            self._connection.close()


def _say_cut() -> None:
    render.notes([f"only the first {ROWS_MAX:,} jobs are printed; --json-lines and -q print all of them"])


def _put(lines: Sequence[str]) -> None:
    """Print lines whose text is clean and that may have colours."""
    if lines:
        render.lines(lines)


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    left = b""
    for part in parts:
        *whole, left = (left + part).split(b"\n")
        yield from whole


def _document(text: bytes) -> dict[str, Any]:
    try:
        document = parse(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Unreachable("the daemon's answer cannot be read; if its version differs, try `grass restart`")
    return document


def _names_one(selectors: Sequence[str]) -> bool:
    # A queue or a state with one job is still printed as a list.
    return len(selectors) == 1 and (selectors[0].isdigit() or selectors[0].startswith("@"))
