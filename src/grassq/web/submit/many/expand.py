"""Make the jobs of an array or a list: `{index}` or `{column}` in the words, variables, output and name of one job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from grassq.broker.service import Draft
from grassq.core.batches.job_names import job_name
from grassq.core.job_options import JobOptions
from grassq.core.names import shown
from grassq.core.sweeps.arrays import TaskArray
from grassq.core.sweeps.parameters import check_parameters
from grassq.core.syntax.placeholders import JOB_PLACEHOLDERS, fill, literal
from grassq.core.syntax.resource_names import VRAM, VRAM_OF
from grassq.errors import BadInput
from grassq.gc_pause import gc_paused
from grassq.web.requests import ParameterColumns
from grassq.web.submit import outputs
from grassq.web.submit.many.bulk import JobTemplate
from grassq.web.submit.validate import DraftBuilder

#: The placeholder of an array.
INDEX = "index"

#: `{name}`, but not `{{name}}`; what is not spelled like a name is text of the command, such as `{print $1}`.
_ASKED = re.compile(rb"(?<!\{)\{([^\W\d][\w.-]*)\}(?!\})")

Values = Mapping[bytes, bytes]


def of_array(words: tuple[bytes, ...], options: JobOptions, builder: DraftBuilder, array: TaskArray) -> list[Draft]:
    """Return a job for each index of an array."""
    builder.submitter.check_count(len(array.indexes))
    points: ParameterColumns = {INDEX: [*map(str, array.indexes)]}
    drafts = _expanded(words, options, builder, points, lambda place: f"index {array.indexes[place]}")
    with gc_paused():
        return [
            replace(draft, spec=replace(draft.spec, array_index=index, array_of=array.span))
            for draft, index in zip(drafts, array.indexes, strict=True)
        ]


def of_points(
    words: tuple[bytes, ...], options: JobOptions, builder: DraftBuilder, points: ParameterColumns, file: str
) -> list[Draft]:
    """Return a job for each row of a list; the values are the parameters of the job."""
    count = check_columns(points)
    builder.submitter.check_count(count)
    _check_asked(words, options, builder, points, file)
    drafts = _expanded(words, options, builder, points, lambda place: f"row {place + 1} of {file}")
    return with_parameters(drafts, points)


def check_columns(points: ParameterColumns) -> int:
    """Return how many rows a list has; raise BadInput if its columns differ in length, or for a NUL byte."""
    counts = {len(values) for values in points.values()}
    if len(counts) != 1 or not max(counts):
        raise BadInput("a list has columns of the same length, with a value in each row")
    for name, values in points.items():
        if any("\0" in value for value in values):
            raise BadInput(f"a value of {shown(name)} holds a NUL byte, which no program can be given")
    return counts.pop()


def with_parameters(drafts: list[Draft], columns: ParameterColumns) -> list[Draft]:
    """Return jobs with the parameters of a sweep, which has one value of each for each job."""
    if not columns:
        return drafts
    for name, values in columns.items():
        if len(values) != len(drafts):
            raise BadInput(f"parameter {shown(name)} has {len(values):,} values for {len(drafts):,} jobs")
    with gc_paused():
        points = [
            check_parameters(dict(zip(columns, point, strict=True))) for point in zip(*columns.values(), strict=True)
        ]
        return [
            replace(draft, spec=replace(draft.spec, parameters=point))
            for draft, point in zip(drafts, points, strict=True)
        ]


class PointForms:
    """What differs from point to point besides the command: the name, the variables and the output file of a job."""

    def __init__(self, options: JobOptions, builder: DraftBuilder) -> None:
        self._options, self._builder = options, builder
        self._name = options.name if options.name is not None and "{" in options.name else None
        self._output = options.output if options.output is not None and b"{" in options.output else None
        self._has_env = any(b"{" in value for _, value in options.env)

    def options(self, values: Values) -> JobOptions:
        """Return the options of one point."""
        options = self._options
        if self._name is not None:
            options = replace(options, name=self._filled_name(values))
        if self._output is not None:
            options = replace(options, output=fill(self._output, values))
        if self._has_env:
            options = replace(options, env=self._filled_env(values))
        return options

    def put(self, draft: Draft, values: Values) -> Draft:
        """Return the job of one point, from a job of another one."""
        if self._name is not None:
            draft = replace(draft, name=self._filled_name(values))
        if self._has_env:
            draft = replace(draft, spec=replace(draft.spec, env=self._filled_env(values)))
        if self._output is not None:
            asked = replace(self._options, output=fill(self._output, values))
            path = outputs.completed(asked, self._builder.submitter).output
            draft = replace(draft, spec=outputs.with_output(draft.spec, path))
        return draft

    def _filled_name(self, values: Values) -> str:
        return job_name(fill((self._name or "").encode(), values).decode("utf-8", "replace"))

    def _filled_env(self, values: Values) -> tuple[tuple[bytes, bytes], ...]:
        return tuple((name, fill(value, values) if b"{" in value else value) for name, value in self._options.env)


def of_sweep(
    make: Callable[[JobTemplate], list[Draft]], options: JobOptions, builder: DraftBuilder, columns: ParameterColumns
) -> list[Draft]:
    """Return the jobs of a sweep, whose commands are filled in already; `columns` has the parameters of each."""
    if not columns or not check_columns(columns):
        return make(JobTemplate(options, builder))
    forms = PointForms(options, builder)
    rows = [*_rows(columns)]
    drafts = with_parameters(make(JobTemplate(forms.options(rows[0]), builder)), columns)
    with gc_paused():
        return [forms.put(draft, values) for draft, values in zip(drafts, rows, strict=True)]


def _rows(points: ParameterColumns) -> Iterable[Values]:
    names = [name.encode() for name in points]
    for row in zip(*points.values(), strict=True):
        yield dict(zip(names, (value.encode() for value in row), strict=True))


def _expanded(
    words: tuple[bytes, ...],
    options: JobOptions,
    builder: DraftBuilder,
    points: ParameterColumns,
    place: Callable[[int], str],
) -> list[Draft]:
    """Return a job for each point; each value stays one word, also in a line for a shell."""
    forms = PointForms(options, builder)
    rows = [*_rows(points)]
    kept = _filled_later(options, builder)
    template = JobTemplate(forms.options(rows[0]), builder)
    is_line = options.shell is not None
    drafts: list[Draft] = []
    with gc_paused():
        for at, values in enumerate(rows):
            # Braces of a value are the value's: nothing is filled in there when the job starts.
            plain = {name: literal(value, kept) for name, value in values.items()}
            typed = {name: _quoted(value) for name, value in plain.items()} if is_line else plain
            command = tuple([fill(word, typed) if b"{" in word else word for word in words])
            try:
                draft = template.of_shell_line(command[0]) if is_line else template.of_words(command)
                drafts.append(forms.put(draft, values))
            except BadInput as error:
                raise BadInput(f"{place(at)}: {error}") from None
    return drafts


def _quoted(value: bytes) -> bytes:
    return shlex.quote(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _filled_later(options: JobOptions, builder: DraftBuilder) -> frozenset[bytes]:
    """Return the placeholders that are filled in when the job starts."""
    asked = {name for name, _ in builder.request_of(options)}
    asked |= {VRAM_OF} if VRAM in asked else set()
    return JOB_PLACEHOLDERS | {name.encode() for name in asked | builder.known.may_name(options.queue)}


def _check_asked(
    words: Sequence[bytes], options: JobOptions, builder: DraftBuilder, points: ParameterColumns, file: str
) -> None:
    """Refuse `{name}` where the list has no such column, and Grass knows no such placeholder."""
    texts = [*words, *(value for _, value in options.env), options.output or b"", (options.name or "").encode()]
    known = {name.encode() for name in points} | _filled_later(options, builder)
    for text in texts:
        for asked in _ASKED.findall(text):
            if asked not in known:
                columns = ", ".join(points)
                raise BadInput(
                    f"{file}, line 1: there is no column {shown(asked)} for {{{asked.decode()}}}; it has {columns} "
                    f"(write {{{{{asked.decode()}}}}} for the text)"
                )
