"""Every option of a job, described once: name, type, default, parser, help line and where it goes.

A field of a class below is one option. Its `Option` says how to type, read and explain the option. Its class says where
the option goes:

    SpecOptions     command line, API, store, the order to a worker; with a field in `run.rundir.RunSpec` also the shim
    PlainOptions    command line and API; in the API it has the same form as here
    JobOptions      command line and API; `web.requests.JobBody` defines the form in the API
    CommandOptions  command line only: an option of the command `enqueue`, not of the job

Grammar, help, HTTP body, spec and stored row derive from these classes. `SubmitOptions` are the options of the SDK.
An option that takes a value is also in `cli.typed.VALUE_OPTIONS`, which must be light to load; a test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypedDict, get_type_hints

from msgspec import Struct
from msgspec.structs import fields, replace

from grassq.core.names import DEFAULT_QUEUE, Tags
from grassq.core.options import parsers
from grassq.core.options.moments import written_delays
from grassq.core.options.parsers import WORKER_NAME, flag, named, number, one_of, path, text
from grassq.core.options.parsers import Option as Option
from grassq.core.options.parsers import Pairs as Pairs
from grassq.core.options.warning import Warn
from grassq.core.sweeps.arrays import TASKS_MAX
from grassq.core.sweeps.parameters import Parameters
from grassq.core.syntax.durations import DURATION_MAX_S
from grassq.core.syntax.file_words import SentTree

PRIORITY_MAX = 1_000_000
NEUTRAL_PRIORITY = 30
TRIES_MAX = 1_000
STOP_GRACE_S = 10.0

#: The most bytes that a log can be limited to.
LOG_MAX_MAX = 1 << 50

_RETRIES = "--retries 2 is --tries 3"


def _flag(help: str = "", short: str | None = None) -> Option:
    return Option(flag, help, takes="flag", short=short)


# fmt: off
class SpecOptions(Struct, frozen=True, kw_only=True):
    """Options that a job keeps in its spec under the same name."""

    tries: Annotated[
        int,
        Option(number, "start the job up to N times until it succeeds", value="N", least=1, most=TRIES_MAX),
        Option(parsers.number_after_first, f"the same, without the first start: {_RETRIES}", value="N", name="retries",
               least=0, most=TRIES_MAX - 1, example=_RETRIES),
    ] = 1
    #: The first and the longest delay; None for the usual one.
    retry_delay_s: Annotated[tuple[float, float] | None, Option(
        parsers.delays,
        "wait this long before another try, such as 1m; 30s..10m doubles the delay each time, up to 10m (default 5s)",
        value="DURATION[..DURATION]", name="retry-delay", written=written_delays,
    )] = None
    #: Exit codes, and words of `core.waiting.retries`; a signal as the exit code that shells give it.
    retry_on: Annotated[tuple[str, ...], Option(
        parsers.failures, "try again only after these: exit codes, signals, timed_out, oom, signalled; such as "
        "137,timed_out", value="LIST", written=",".join,
    )] = ()
    no_retry_on: Annotated[tuple[str, ...], Option(
        parsers.failures, "never try again after these, such as 2", value="LIST", written=",".join,
    )] = ()
    on_lost: Annotated[Literal["fail", "requeue"], Option(
        one_of("requeue", "fail"), value="fail|requeue",
        help="when its machine is lost: fail (default), or requeue to run the job elsewhere after it is certain to "
        "have ended there",
    )] = "fail"
    grace_s: Annotated[float, Option(
        parsers.seconds, f"time between SIGTERM and SIGKILL (default {STOP_GRACE_S:g}s)", value="DURATION",
        name="grace", least=0, most=DURATION_MAX_S,
    )] = STOP_GRACE_S
    #: Kept by the shim of each attempt, on the monotonic clock; None for the default of the queue.
    time_limit_s: Annotated[float | None, Option(
        parsers.some_seconds, "end each attempt after this time, such as 90m or 2h (default: the limit of the queue)",
        value="DURATION", name="time-limit", least=1, most=DURATION_MAX_S,
    )] = None
    #: Kept by the shim too. The API has `warn_s` and `warn_signal`.
    warn: Annotated[Warn | None, Option(
        parsers.warning, "send SIGNAL (default USR1) so long before the time limit to the processes that handle it",
        value="DURATION[:SIGNAL]",
    )] = None
    #: Kept by the shim too: no byte of output for so long ends an attempt.
    idle_limit_s: Annotated[float | None, Option(
        parsers.some_seconds, "end each attempt that writes nothing for so long, such as 30m", value="DURATION",
        name="idle-limit", least=1, most=DURATION_MAX_S,
    )] = None
    split: Annotated[bool, _flag("keep stdout and stderr apart")] = False
    #: In bytes; 0 for no limit, None for the setting `log_max` of the worker.
    log_max: Annotated[int | None, Option(
        parsers.log_size,
        "cut the middle out of a log above this, such as 500M or none (default: the setting log_max of the "
        "worker); with --split, of each",
        value="SIZE", least=0, most=LOG_MAX_MAX,
    )] = None
    #: Absolute in a spec; `{job.id}` and the like are filled in at the start.
    output: Annotated[bytes | None, Option(
        path, "write stdout and stderr to this file, too; `{job.id}` becomes the id", value="FILE",
    )] = None
    keep_children: Annotated[bool, _flag("do not kill background processes when the command ends")] = False
    send: Annotated[tuple[SentTree, ...], Option(
        parsers.sent, "run in a copy of this folder, or with a copy at DEST in there; repeat for more", "given",
        value="DIR[:DEST]", repeats=True,
    )] = ()
    fetch: Annotated[tuple[bytes, ...], Option(
        parsers.patterns, "bring these files of the job's directory back when it ends; repeat for more", "given",
        value="PATTERN", repeats=True,
    )] = ()
    #: Absolute in a spec with `fetch`, where None is replaced by the first sent folder or the submitter's directory.
    fetch_to: Annotated[bytes | None, Option(
        path, "bring them here (default: the folder of --send, else the current one)", "given", value="DIR",
    )] = None
    #: "machine": the submitter's on the submitter's machine, the machine's own on any other.
    env_from: Annotated[Literal["machine", "there", "here"], Option(
        one_of("there", "here"), value="there|here", section="given",
        help="the environment of a login shell on the job's machine, or of this shell",
    )] = "machine"
    python: Annotated[bytes | None, Option(
        path, "the Python of the job: a program or a virtual environment on its machine", "given", value="PATH",
    )] = None
    setup: Annotated[bytes | None, Option(
        parsers.line,
        'prepare an environment once, before the first job that needs it: "uv sync"', "given", value="LINE",
    )] = None
    setup_files: Annotated[tuple[bytes, ...], Option(
        parsers.inside, "the files that --setup reads; the setup runs again when they change; repeat for more", "given",
        value="FILE", repeats=True,
    )] = ()
    #: Kept by the broker: no worker is told.
    notify: Annotated[tuple[str, ...], Option(
        parsers.targets,
        "when the job ends, or the whole sweep, run CMD, send it to the URL, or show it on the desktop; "
        "repeat for more", value="CMD|URL|desktop", repeats=True,
    )] = ()
    wrap: Annotated[bytes | None, Option(
        parsers.wrapper,
        'put these words before the command: "nice -n 10", "podman run --rm IMAGE"; split like a line of a '
        "shell, but no shell reads them; `{gpu}` becomes the device ids", "given", value="WORDS",
    )] = None
    project: Annotated[str | None, Option(
        named("project name"), "the project of the job; project:NAME selects its jobs (default: $GRASS_PROJECT, then "
        "grass.toml of the working tree, then the setting project)", value="NAME",
    )] = None
    #: Kept by the broker: no worker is told.
    tags: Annotated[Tags, Option(
        parsers.tags, "a tag that selects the job as tag:KEY=VALUE; repeat for more", value="KEY=VALUE", name="tag",
        repeats=True,
    )] = ()
    #: Kept by the broker, within the jobs of one token.
    unique: Annotated[str | None, Option(
        parsers.unique_key, "queue nothing while a job of yours with this key has not ended; print the id of that job",
        value="KEY",
    )] = None
    #: What a job of a sweep stands for: the name and the value of each parameter. `grass sweep` and programs give them,
    #: so there is no option to type. Kept by the broker: no worker is told.
    parameters: Parameters = ()


class PlainOptions(SpecOptions, frozen=True, kw_only=True):
    """Options that have one form on the command line and in the API."""

    worker: Annotated[str | None, Option(
        WORKER_NAME, "run on this worker, as `grass show` names it", "needs", value="NAME",
    )] = None
    labels: Annotated[tuple[str, ...], Option(
        parsers.label_names,
        "run on a worker with this label (see `grass daemon`); repeat for more", "needs", value="LABEL",
        name="label", repeats=True,
    )] = ()
    name: Annotated[str | None, Option(
        named("job name", parsers.name_form), "a name that selects the job", value="NAME",
    )] = None
    priority: Annotated[int, Option(
        number, f"larger is sooner; {NEUTRAL_PRIORITY} is neutral", value="N", least=-PRIORITY_MAX, most=PRIORITY_MAX,
    )] = NEUTRAL_PRIORITY
    hold: Annotated[bool, _flag("wait for `grass release`")] = False
    after: Annotated[tuple[str, ...], Option(
        parsers.selector_texts, "start after these jobs have succeeded: ids, ranges, names, sweeps; repeat for more",
        value="JOBS", repeats=True,
    )] = ()
    after_any: Annotated[tuple[str, ...], Option(
        parsers.selector_texts, "start after these jobs have ended, however they ended", value="JOBS", repeats=True,
    )] = ()
    after_fail: Annotated[tuple[str, ...], Option(
        parsers.selector_texts, "start after one of these jobs has failed or was cancelled", value="JOBS", repeats=True,
    )] = ()
    #: As typed, or in seconds since the epoch.
    at: Annotated[float | str | None, Option(
        parsers.moment, "start at this time or later: 18:00, 2026-12-01T08:00", value="TIME",
    )] = None
    in_s: Annotated[float | None, Option(
        parsers.seconds, "start after this time, such as 2h", value="DURATION", name="in", least=0, most=DURATION_MAX_S,
    )] = None


class JobOptions(PlainOptions, frozen=True, kw_only=True):
    """All options of a job."""

    #: Amounts by resource, or as JSON5; None is the default request.
    request: Annotated[Mapping[str, object] | str | None, Option(
        text, 'all amounts at once: "{gpu: 0.5, cpu: 4}"', "needs", value="JSON5", name="require",
    )] = None
    #: In the order given; a later pair overrides an earlier one.
    env: Annotated[Pairs, Option(
        parsers.pairs, "one variable; repeat for more; `{gpu}` becomes the device ids", "given", value="NAME=VALUE",
        repeats=True, short="e",
    )] = ()
    cwd: Annotated[bytes | None, Option(
        parsers.raw, "directory of the job (default: the current one)", "given", value="DIR",
    )] = None
    #: None: no shell; b"": the user's shell; else the path of a shell.
    shell: Annotated[bytes | None, Option(
        parsers.raw, "run the command as one line of a shell ($SHELL, or PATH)", "given", value="PATH", takes="maybe",
    )] = None
    queue: Annotated[str, Option(
        named("queue name"), "the queue, if not the first word", value="QUEUE",
    )] = DEFAULT_QUEUE
# fmt: on


class CommandOptions(Struct, frozen=True, kw_only=True):
    """Options of the command `enqueue` itself: output, input and broker."""

    quiet: Annotated[bool, _flag(short="q")] = False
    json: Annotated[bool, _flag()] = False
    sync: Annotated[bool, _flag()] = False
    #: Only tell what would happen.
    dry_run: Annotated[bool, _flag()] = False
    #: The commands are the lines of stdin; there are no words.
    stdin: Annotated[bool, _flag()] = False
    #: Indexes, or a file: one job for each index or row, all or none. `{index}` or `{column}` becomes its value.
    array: Annotated[str | None, Option(text, value="INDEXES")] = None
    each: Annotated[str | None, Option(text, value="FILE")] = None
    #: Of the jobs of one submission: how many run at once, and after how many failures nothing more starts.
    at_once: Annotated[int | None, Option(number, value="N", least=1, most=TASKS_MAX)] = None
    max_fails: Annotated[int | None, Option(number, value="K", least=1, most=TASKS_MAX)] = None
    broker: Annotated[str | None, Option(text, value="ADDRESS")] = None


class PathObject(Protocol):
    """A path that is no text, such as a `pathlib.Path`."""

    def __fspath__(self) -> str:
        """Return the path as text."""


#: A path as a program names it.
Path = str | bytes | PathObject


class SubmitOptions(TypedDict, total=False):
    """The keyword arguments of `Client.submit` and `Client.submit_many`, besides command, cwd and key."""

    #: The queue (default: "default").
    queue: str | None
    #: Amounts by resource, such as {"gpu": 0.5, "printer": 1}; gpu, cpu, mem, vram and disk are shortcuts.
    request: Mapping[str, int | float | str] | None
    gpu: int | float | str | None
    cpu: int | float | str | None
    mem: int | float | str | None
    vram: int | float | str | None
    disk: int | float | str | None
    #: A name for the job, usable as a selector.
    name: str | None
    #: The project of the job; "project:NAME" selects its jobs (default: $GRASS_PROJECT, then `grass.toml` of the
    #: working tree, then the setting `project`).
    project: str | None
    #: Tags by key; "tag:KEY=VALUE" selects the jobs that have one.
    tags: Mapping[str, str] | None
    #: Queue nothing while a job with this key has not ended; that job is returned instead.
    unique: str | None
    #: Larger is sooner; 30, the default, is neutral.
    priority: int
    #: Variables on top of the environment; a value may also be a number or a path.
    env: Mapping[str, object] | Mapping[bytes, object] | None
    #: Wait for `grass release`.
    hold: bool
    #: Keep stdout and stderr apart.
    split: bool
    #: Cut the middle out of a log above this many bytes; 0 for no limit (default: the setting `log_max`).
    log_max: int | None
    #: A file that gets stdout and stderr, too; `{job.id}` in the name becomes the id.
    output: Path | None
    #: A folder, or folders, whose copy the job runs in; a mapping names the place of each copy in there.
    send: Path | Sequence[Path] | Mapping[Any, Path] | None
    #: Patterns of the files to bring back from the job's directory when it ends.
    fetch: Path | Sequence[Path] | None
    #: Where to bring them (default: the first sent folder, else the directory of the program).
    fetch_to: Path | None
    #: "there": the environment of a login shell on the job's machine; "here": the environment of this program.
    env_from: str | None
    #: The Python of the job: a program or a virtual environment on its machine.
    python: Path | None
    #: A line for a shell that prepares an environment once, before the first job that needs it.
    setup: str | None
    #: The files that `setup` reads; it runs again when they change.
    setup_files: Path | Sequence[Path] | None
    #: A command, a URL or "desktop", or several: told when the job ends, or all jobs of one submission with a name.
    notify: str | Sequence[str] | None
    #: Words that come before the command, as one line or as a list: "nice -n 10".
    wrap: str | Sequence[str] | None
    #: Do not kill background processes when the command ends.
    keep_children: bool
    #: Seconds between SIGTERM and SIGKILL (default: 10).
    grace_s: float | None
    #: Seconds after which an attempt is ended (default: the queue's, or none).
    time_limit_s: float | None
    #: Seconds before that at which its processes get `warn_signal`, such as "TERM" (default: "USR1").
    warn_s: float | None
    warn_signal: str | None
    #: Seconds without a byte of output after which an attempt is ended.
    idle_limit_s: float | None
    #: When its machine is lost: "fail" (the default), or "requeue" to run the job elsewhere.
    on_lost: str
    #: Start the job up to this many times until it succeeds (default: 1).
    tries: int
    #: Seconds before another try; a pair doubles the delay from the first up to the second (default: 5).
    retry_delay_s: float | Sequence[float] | None
    #: Try again only after these exit codes, signals and words, such as [137, "timed_out"].
    retry_on: Sequence[int | str] | str | None
    #: Never try again after these.
    no_retry_on: Sequence[int | str] | str | None
    #: Start after these jobs have succeeded: jobs, ids or selectors.
    after: object
    #: Start after these jobs have ended.
    after_any: object
    #: Start after one of these jobs has failed or was cancelled.
    after_fail: object
    #: Start at this time or later: a `datetime`, or seconds since the epoch.
    at: object
    #: Start after this many seconds.
    in_s: float | None
    #: The only worker that may run the job.
    worker: str | None
    #: Labels that the worker must have.
    labels: Sequence[str]


def options_of(kind: type[Struct]) -> tuple[Option, ...]:
    """Return the options that a class describes: its own fields first, then those of its bases."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        replace(option, field=field, name=option.name or field.replace("_", "-"))
        for owner in kind.__mro__
        for field in vars(owner).get("__annotations__", ())
        for option in getattr(hints[field], "__metadata__", ())
    )


JOB_OPTIONS = options_of(JobOptions)
COMMAND_OPTIONS = options_of(CommandOptions)
#: The fields of a spec that are options of the same name.
SPEC_FIELDS = SpecOptions.__struct_fields__
#: The options that only a worker which takes files understands.
FILE_FIELDS = ("send", "fetch", "fetch_to", "env_from", "python", "setup", "setup_files")

_FILE_DEFAULTS = [(each.name, each.default) for each in fields(SpecOptions) if each.name in FILE_FIELDS]
_BOUNDED = {option.field: option for option in reversed(JOB_OPTIONS) if option.least is not None}
#: The fields of PlainOptions whose values `check_bounds` looks at.
BOUNDED_FIELDS = tuple(_BOUNDED)


def uses_files(options: SpecOptions) -> bool:
    """Tell whether one of FILE_FIELDS was given."""
    return any(getattr(options, name) != default for name, default in _FILE_DEFAULTS)


def check_bounds(**values: float | None) -> None:
    """Raise ValueError for a number outside the bounds of its option."""
    for field, value in values.items():
        option = _BOUNDED[field]
        low, high = option.least, option.most
        if value is not None and low is not None and high is not None and not low <= value <= high:
            raise ValueError(f"{field} must lie between {low:.0f} and {high:.0f}")
