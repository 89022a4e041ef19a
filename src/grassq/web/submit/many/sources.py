"""Where the jobs of a program's request come from: commands, an array, the rows of a list, or the points of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from grassq.core.names import shown
from grassq.core.sweeps.grid import GRID_MAX, GridSearch
from grassq.core.sweeps.parameters import PARAMETERS_MAX, parameter_columns
from grassq.core.sweeps.points import FileKind, read_points
from grassq.core.sweeps.ranges import expanded
from grassq.errors import BadInput
from grassq.web.requests import Command, JobBody, ParameterColumns, ProgramBody, Submitter, SweepBody

#: The combinations of a grid from another machine, before those that are left out: as many times its most jobs.
REMOTE_COMBINATIONS = 10


class RowsBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A list as text: a CSV with a header, JSON lines, or lines, whose one column is `line`."""

    text: str
    kind: FileKind = "csv"
    #: What errors call it.
    file: str = "the list"


class GridBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a sweep, whose combinations are its points."""

    #: By parameter: values, and ranges such as `0..4`, `32..256*2` and `log:1e-5..1e-1:20`.
    parameters: dict[str, list[str]] = field(default_factory=dict)
    #: Points that are left out: `lr=0.1 bs=32`.
    exclude: list[str] = field(default_factory=list)


class ManyBody(ProgramBody, kw_only=True):
    """Many commands submitted by a program, and the options that all of them share."""

    job: JobBody
    commands: list[Command]
    #: Of each parameter of a sweep the value in each command.
    parameters: ParameterColumns = field(default_factory=dict)
    #: The jobs are a sweep.
    sweep: SweepBody | None = None
    #: Indexes such as 0-99%8, or the columns of a list: the one command is run for each index or row, and `{index}` or
    #: `{column}` in it becomes the value.
    array: str | None = None
    each: ParameterColumns = field(default_factory=dict)
    #: Instead of `each`: the list as text. With `grid`, each row is joined with each combination.
    rows: RowsBody | None = None
    #: The one command, a line, is run for each point, as by `grass sweep`: `{name}` becomes the value.
    grid: GridBody | None = None


def resolved(body: ManyBody, submitter: Submitter) -> tuple[ManyBody, list[str]]:
    """Return a request with the columns of its list, or the commands of its grid; and what is probably not meant."""
    rows = body.rows
    if rows is None and body.grid is None:
        return body, []
    if len(body.commands) != 1 or body.parameters or body.array is not None or body.each:
        raise BadInput("`rows` and `grid` go with one command, and without `parameters`, `array` and `each`")
    points = None if rows is None else read_points(rows.text.encode("utf-8", "surrogatepass"), rows.kind, rows.file)
    if body.grid is None:
        assert points is not None
        return replace(body, rows=None, each=points.columns()), []
    command = body.commands[0]
    if not isinstance(command, str):
        raise BadInput("`grid` goes with one command, which is a line")
    values = _values(body.grid.parameters, submitter, 1 if points is None else len(points.rows))
    search = GridSearch(command, values, rows=points, exclude=body.grid.exclude)
    submitter.check_count(search.count)
    found: Sequence[tuple[str, ...]] = [*search.values(None)]
    columns = parameter_columns([*search.parameters], found)
    lines: list[Command] = [*search.lines(None)]
    sweep = body.sweep or SweepBody()
    return replace(body, rows=None, grid=None, commands=lines, parameters=columns, sweep=sweep), search.notes


def _values(parameters: Mapping[str, list[str]], submitter: Submitter, count: int) -> dict[str, list[str]]:
    """Return the values of each parameter, with ranges as their values; raise BadInput for too many combinations."""
    if len(parameters) > PARAMETERS_MAX:
        raise BadInput(f"a sweep has {PARAMETERS_MAX} parameters at most, not {len(parameters)}")
    most = REMOTE_COMBINATIONS * submitter.jobs_max if submitter.is_remote else GRID_MAX
    found: dict[str, list[str]] = {}
    for name, values in parameters.items():
        found[name] = expanded(values, name)
        count *= max(1, len(found[name]))
        if count > most:
            raise BadInput(f"with parameter {shown(name)} there are more than {most:,} combinations; give fewer values")
    return found
