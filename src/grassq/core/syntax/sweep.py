"""A parameter search: one command with `{name}` in it and the values of each name; one line for each combination.

Light to import: `simple_hypersearch` prints its first line before a parser of words would be loaded.
"""

from __future__ import annotations

from itertools import islice, product, starmap

from grassq.core.permutation import order
from grassq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SHUFFLED, GRID = MODES = ("shuffled_grid", "grid")
#: How wide `{name:>8}` may make a value: four digits.
WIDTH_DIGITS_MAX = 4
#: Combinations of some parameters that are made beforehand.
TABLE_MAX = 1024
#: No run ends that has more lines than this, and no Python counter goes further.
LINES_MAX = (1 << 63) - 1

_PARAMETER = ("-p", "--parameter")
_VALUED = ("--n-samples", "--sampling-mode", "--seed")
_HELP = ("-h", "--help")
_SHOWN_CHARS = 60


class Search:
    """A search as it was typed and checked."""

    def __init__(self, command: str, parameters: dict[str, list[str]], samples: int | None = None) -> None:
        self.parameters = parameters
        self._columns = list(parameters.values())
        self._form, used = _compile(command, {name: str(place) for place, name in enumerate(parameters)})
        #: How many points the grid has, and how many of them are asked for.
        self.points = 1
        for name, values in parameters.items():
            if not values:
                raise BadInput(f"parameter {shown(name)} has no values: -p {name} VALUE...")
            self.points *= len(values)
        self.count = self.points if samples is None else min(samples, self.points)
        #: Warnings about what is probably not meant.
        self.notes = [note for name, values in parameters.items() for note in _remarks(name, values, name in used)]
        if samples is not None and samples > self.points:
            are = "is only 1 combination" if self.points == 1 else f"are only {self.points:,} combinations"
            self.notes.append(f"there {are}; --n-samples {samples} takes all of them")

    def lines(self, seed: int | None) -> Iterator[str]:
        """Yield the lines asked for: in the order that `seed` decides, or without a seed as nested loops do."""
        return starmap(self._form.format, self.values(seed))

    def values(self, seed: int | None) -> Iterator[tuple[str, ...]]:
        """Yield the values of the parameters in each line, in the order of `lines` with the same seed."""
        points = product(*self._columns) if seed is None else self._shuffled(seed)
        return islice(points, min(self.count, LINES_MAX))

    def _shuffled(self, seed: int) -> Iterator[tuple[str, ...]]:
        # The last parameter changes fastest, so a point's number is split from the end.
        backwards = [(table, len(table)) for table in reversed(_tables(self._columns))]
        for number in order(self.points, seed):
            point: tuple[str, ...] = ()
            for table, size in backwards:
                number, place = divmod(number, size)
                point = table[place] + point
            yield point


class Typed:
    """The words of a search, and the other words of its command line."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        #: Those of the commands that are behind `--`.
        self.behind: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        self.samples: int | None = None
        self.mode = SHUFFLED
        self.seed: int | None = None
        self.rest: list[str] = []
        self.notes: list[str] = []
        self.help = False

    def search(self) -> Search:
        """Check everything typed as a whole and return the search."""
        if not self.commands:
            where = ", before -p or behind --" if self.parameters else ""
            raise BadInput(f"the command is missing: put it in quotes, with {{NAME}} for each parameter{where}")
        if len(self.commands) > 1:
            one, two = self.commands[:2]
            if len(one.split()) > 1:
                raise BadInput(f"there is one command, {shown(one)}, so {shown(two)} has no place here")
            raise BadInput(_in_quotes(one, two))
        search = Search(self.commands[0], self.parameters, self.samples)
        search.notes = self.notes + search.notes
        return search

    def order(self, chance: Callable[[], int]) -> int | None:
        """Return the seed of the order: random if none was typed, and None for the order of the grid."""
        if self.mode == GRID:
            return None
        return chance() if self.seed is None else self.seed


def read(words: Sequence[str], width: Callable[[str], int], shorts: Sequence[str] = _HELP) -> Typed:
    """Read the words of a search.

    `width` says how many words an unknown option takes, itself included, or refuses the option. The values of -p end at
    a word that begins with `--` or is one of `shorts`, so values may begin with a minus sign.
    """
    typed = Typed()
    at = 0
    while at < len(words) and not typed.help:
        word = words[at]
        head, equals, value = word.partition("=")
        if word == "--":
            typed.behind = list(words[at + 1 :])
            typed.commands += typed.behind
            break
        elif word in _HELP:
            typed.help = True
        elif word in _PARAMETER:
            at = _parameter(typed, words, at + 1, (*_PARAMETER, *shorts))
            continue
        elif head in _VALUED:
            if not equals:
                at += 1
                value = words[at] if at < len(words) else ""
            _value(typed, head, value)
        elif word.startswith("-") and word != "-":
            end = at + _width(typed, word, width)
            typed.rest += words[at:end]
            at = end - 1
        else:
            typed.commands.append(word)
            if len(typed.commands) > 1:
                break  # `search` refuses it: the words behind it are most likely the command's too
        at += 1
    return typed


def shown(text: str) -> str:
    """Return a text in quotes for a message: on one line, and no longer than a line."""
    return repr(text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "...")


def _parameter(typed: Typed, words: Sequence[str], at: int, ends: tuple[str, ...]) -> int:
    end = at
    while end < len(words) and words[end] not in ends and not words[end].startswith("--"):
        end += 1
    if end == at:
        raise BadInput("-p needs the name of a parameter and its values: -p NAME VALUE...")
    name = words[at]
    if name in typed.parameters:
        typed.notes.append(f"parameter {shown(name)} is given twice; the last one counts")
    typed.parameters[name] = list(words[at + 1 : end])
    return end


def _remarks(name: str, values: Sequence[str], is_used: bool) -> Iterator[str]:
    if not is_used:
        yield f"no {{{name}}} is in the command, so every line comes {len(values)} times"
    if len(values) == 1 and "," in values[0].strip(","):
        several = f"-p {name} {' '.join(values[0].split(','))}"
        one = f"parameter {shown(name)} has one value, {shown(values[0])}"
        yield f"{one}; for several, put blanks between them: {several}"


def _in_quotes(*words: str) -> str:
    return f'put the whole command in quotes, as one word: "{" ".join(words)} ..."'


def _width(typed: Typed, word: str, width: Callable[[str], int]) -> int:
    """Return how many words an option takes; the refusal of an unknown one says that quotes may be missing."""
    try:
        return width(word)
    except BadInput as error:
        is_strange = str(error) == f"unknown option {shown(word)}"
        raise _maybe_quotes(error, typed, word) if is_strange else error from None


def _maybe_quotes(error: BadInput, typed: Typed, word: str) -> BadInput:
    if not typed.commands or len(typed.commands[0].split()) > 1:
        return error
    return BadInput(f"{error}; if it belongs to the command, {_in_quotes(typed.commands[0], word)}")


def _value(typed: Typed, option: str, value: str) -> None:
    if option == "--sampling-mode":
        if value not in MODES:
            raise BadInput(f"--sampling-mode is {SHUFFLED} or {GRID}, not {shown(value)}")
        typed.mode = value
        return
    try:
        number = int(value)
    except ValueError:
        number = None
    if option == "--seed":
        if number is None:
            error = BadInput(f"--seed needs a whole number, not {shown(value)}")
            raise _maybe_quotes(error, typed, option) if value.startswith("{") else error
        typed.seed = number
        return
    if number is None or number < 0:
        raise BadInput(f"--n-samples needs a whole number, 0 or more, not {shown(value)}")
    typed.samples = number


def _tables(columns: list[list[str]]) -> list[list[tuple[str, ...]]]:
    """Join neighbouring columns into one while the combinations stay few: a point then has fewer parts to look up."""
    tables: list[list[tuple[str, ...]]] = [[()]]
    for values in columns:
        if len(tables[-1]) * len(values) <= TABLE_MAX:
            tables[-1] = [(*begun, value) for begun in tables[-1] for value in values]
        else:
            tables.append([(value,) for value in values])
    return tables


def _compile(command: str, places: dict[str, str]) -> tuple[str, set[str]]:
    """Return the command as a `str.format` template with parameter indexes for names, and the names used."""
    parts: list[str] = []
    used: set[str] = set()
    at = 0
    while True:
        found = [mark for mark in (command.find("{", at), command.find("}", at)) if mark >= 0]
        if not found:
            return "".join([*parts, command[at:]]), used
        mark = min(found)
        brace = command[mark]
        if command[mark : mark + 2] == 2 * brace:
            parts.append(command[at : mark + 2])
            at = mark + 2
            continue
        end = command.find("}", mark)
        inside = command[mark + 1 : end]
        if brace == "}" or end < 0 or "{" in inside:
            raise BadInput(
                f"a single {brace} in the command, at {shown(command[mark:])}: write {2 * brace} for the text"
            )
        name = inside if inside in places else inside.partition(":")[0].partition("!")[0]
        if name not in places:
            joined = next((each for each in places if each.startswith(f"{name}=")), None)
            raise _no_parameter(name, inside, joined, dollar=command[:mark].endswith("$"))
        form = inside[len(name) :]
        _check_form(form, inside)
        used.add(name)
        parts += [command[at:mark], "{", places[name], form, "}"]
        at = end + 1


def _no_parameter(name: str, inside: str, joined: str | None, dollar: bool) -> BadInput:
    if joined is not None:
        values = " ".join(joined.partition("=")[2].split(","))
        return BadInput(f"-p {joined}: write the name and each value as a word of its own: -p {name} {values}")
    sign, text = "$" if dollar else "", shown(inside)[1:-1]
    literal = f"write {sign}{{{{{text}}}}} for the text {sign}{{{text}}}"
    if not inside:
        return BadInput(f"{sign}{{}} names no parameter; {literal}")
    return BadInput(f"{{{text}}} has no values: add -p {shown(name)[1:-1]} VALUE..., or {literal}")


def _check_form(form: str, inside: str) -> None:
    """Refuse a `:>8` or `!r` behind an unknown name, or one that would fill the memory."""
    if sum(map(str.isdigit, form)) > WIDTH_DIGITS_MAX:
        raise BadInput(f"{{{shown(inside)[1:-1]}}} makes a value wider than {'9' * WIDTH_DIGITS_MAX} characters")
    try:
        f"{{0{form}}}".format("")
    except (ValueError, LookupError) as error:
        raise BadInput(f"{{{shown(inside)[1:-1]}}} is not a format of a value: {error}") from None
