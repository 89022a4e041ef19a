"""Tells what can come at the cursor, from the words before it and the lines of `table.tsv`. Imports nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STATES = ("held", "waiting", "queued", "placed", "running", "succeeded", "failed", "cancelled")
#: The states of the jobs that a command is about.
GROUPS = {
    "unfinished": STATES[:5],
    "movable": STATES[:3],
    "holdable": STATES[1:3],
    "held": STATES[:1],
    "running": STATES[4:5],
}
#: What the daemon is asked for to complete a value of a kind.
ASKED = {
    "selector": ("job", "queue", "name"),
    "queue": ("queue",),
    "name": ("queue",),
    "worker": ("worker",),
    "label": ("label",),
    "machine": ("machine",),
    "amount": ("resource",),
    "project": ("project",),
    "tag": ("tag",),
    "device": ("device",),
}
#: What can be written before the name in a selector.
SELECTOR_PREFIXES = {"queue:": "queue", "name:": "name", "project:": "project", "tag:": "tag", "sweep:": "sweep"}
#: What comes behind others, without the daemon.
PREFIXED_WORDS = {
    "state:": [(state, "") for state in STATES],
    "since:": [("1h", "the last hour"), ("1d", "a day"), ("2d", "two days"), ("1w", "a week")],
}
#: What is offered of these where a selector begins with the same letters; a queue and a name need nothing before them.
PREFIXES = [
    ("state:", "jobs in a state"),
    ("since:", "jobs that ended within a time"),
    ("tag:", "jobs with a tag"),
    ("sweep:", "the jobs of a sweep"),
    ("project:", "the jobs of a project"),
]

#: A word and its description.
Row = tuple[str, str]


class Expected:
    """What can come at the cursor."""

    #: `files` and `folders`: the shell completes a path. `command`: from the word `place` on, the words are a command
    #: line of their own, which the shell completes as it would without `grass`.
    action = "words"
    place = 0
    #: How many characters of the word at the cursor stay as they are: those of `--queue=`, or of `1,4,`.
    kept = 0
    prefix = ""
    #: What the daemon is asked for, and the states of the jobs that are wanted.
    kinds: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    #: The broker that the words name.
    broker: str | None = None

    def __init__(self) -> None:
        #: Words that are known without the daemon. All rows are filtered by the prefix in the end.
        self.rows: list[Row] = []
        #: Rows of the daemon become options: `printer` becomes `--printer=`.
        self.as_options = False


class TableCommand:
    """The lines of the table about one command."""

    def __init__(self, name: str, lines: list[list[str]]) -> None:
        #: Each option with its value, as in the table, and its description.
        self.options = {line[1]: (line[2], line[3]) for line in lines if line[0] == name and line[1].startswith("-")}
        self._plain = {line[1]: line[2] for line in lines if line[0] == name and line[1].startswith("@")}
        self.has_job = "command" in self._plain.values()
        self.takes_queue = self._plain.get("@1") == "queue"

    def plain(self, place: int) -> str:
        """Return what the plain word at a place is, counted from 1; "" if it is unknown."""
        if known := self._plain.get(f"@{place}"):
            return known
        repeated = [(int(key[1:-1]), kind) for key, kind in self._plain.items() if key.endswith("+")]
        return next((kind for first, kind in repeated if first <= place), "")


def expected(words: list[str], table: str, is_queue: Callable[[str], bool]) -> Expected:
    """Return what can come in place of the last word; `is_queue` is asked whether there is a queue of a name."""
    lines = [line.split("\t") for line in table.splitlines()]
    found = Expected()
    found.prefix = words[-1]
    commands = [(line[0], line[3]) for line in lines if not line[1]]
    if len(words) == 1:
        found.rows = [*commands, *_OWN_OPTIONS] if words[0].startswith("-") else commands
        return found
    name = next((line[2] for line in lines if line[0] == words[0] and line[1] == ">"), words[0])
    if name == "help":
        found.rows = commands if len(words) == 2 else []
        return found
    _Cursor(TableCommand(name, lines), words, found, is_queue).find()
    return found


_OWN_OPTIONS = [("--help", "list the commands"), ("--version", "print the version")]


class _Cursor:
    """Goes through the words before the cursor, as the command itself reads them."""

    def __init__(
        self, command: TableCommand, words: list[str], found: Expected, is_queue: Callable[[str], bool]
    ) -> None:
        self._command = command
        self._words = words
        self._last = len(words) - 1
        self._found = found
        self._is_queue = is_queue

    def find(self) -> None:
        """Fill in what is expected."""
        at, plain = 1, 0
        while at < self._last:
            word = self._words[at]
            if word == "--":
                return self._after_dashes(at + 1, plain)
            if word.startswith("-") and len(word) > 1:
                width = self._width(word)
                if at + width > self._last:
                    return self._value(self._command.options[word][0][1:])
                self._note_broker(word, self._words[at + 1])
                at += width
                continue
            if self._command.has_job and self._begins_job(at, plain):
                return self._job(at)
            plain += 1
            at += 1
        self._at_cursor(plain)

    def _width(self, word: str) -> int:
        takes = self._command.options.get(word, ("", ""))[0]
        return 2 if takes.startswith("=") else 1

    def _note_broker(self, word: str, following: str) -> None:
        head, equals, value = word.partition("=")
        if head == "--broker":
            self._found.broker = value if equals else following

    def _begins_job(self, at: int, plain: int) -> bool:
        """Tell whether a plain word is the first of the job's command, not the queue before it."""
        if plain:
            return True
        if not self._command.takes_queue:
            return False  # the name of a new queue
        return not (self._dashes_follow(at) or self._is_queue(self._words[at]))

    def _dashes_follow(self, at: int) -> bool:
        """Tell whether only options stand between a word and `--`: the word is a queue then."""
        at += 1
        while at < self._last and self._words[at].startswith("-"):
            if self._words[at] == "--":
                return True
            at += self._width(self._words[at])
        return False

    def _after_dashes(self, at: int, plain: int) -> None:
        if self._command.has_job:
            return self._job(at)
        self._value(self._command.plain(plain + 1 + self._last - at))

    def _job(self, at: int) -> None:
        self._found.action, self._found.place = "command", at

    def _at_cursor(self, plain: int) -> None:
        word = self._words[-1]
        head, equals, _ = word.partition("=")
        if word.startswith("-"):
            if equals:
                takes = self._command.options.get(head, ("", ""))[0]
                return self._value(takes[1:], kept=len(head) + 1)
            return self._options()
        if self._command.has_job and plain:
            return self._job(self._last)
        kind = self._command.plain(plain + 1)
        if not word and self._command.has_job:
            self._options()
        self._value(kind)
        if kind == "queue" and self._command.has_job and word:
            self._job(self._last)

    def _options(self) -> None:
        """Offer the options; those with an amount, as in `--gpu=1`, with their equals sign."""
        found = self._found
        for option, (takes, about) in self._command.options.items():
            if option == "--NAME":
                found.as_options = True
                found.kinds += ASKED["amount"]
            elif option.startswith("--") or found.prefix == option:
                is_amount = "--NAME" in self._command.options and takes == "=" and about.startswith("an amount")
                found.rows.append((option + "=" * is_amount, about))

    def _value(self, kind: str, kept: int = 0) -> None:
        """Expect a value of a kind after the characters that are kept."""
        found = self._found
        found.prefix = self._words[-1][kept:]
        name, _, rest = kind.partition(" ")
        name, _, group = name.partition(":")
        if name in ("words", "list"):
            found.rows += [(word, "") for word in rest.split()]
            # In a list, the words before the last comma stay, and a sign before a word.
            start = found.prefix.rfind(",") + 1 if name == "list" else 0
            start += name == "list" and found.prefix[start : start + 1] in ("+", "-")
            kept, found.prefix = kept + start, found.prefix[start:]
        elif name in ("file", "folder"):
            found.action = name + "s"
        elif name == "selector":
            kept += self._selector(group)
        else:
            found.kinds += ASKED.get(name, ())
            found.rows += [("local", "this machine")] if name == "broker" else []
        found.kept = kept

    def _selector(self, group: str) -> int:
        """Expect a selector; return how many characters of it are kept."""
        found = self._found
        states = GROUPS.get(group, ())
        # Parts are joined by `,` (or) and `+` (and); the last one is at the cursor.
        kept = max(found.prefix.rfind(","), found.prefix.rfind("+")) + 1
        joined, found.prefix = found.prefix[:kept], found.prefix[kept:]
        start, colon, rest = found.prefix.partition(":")
        if colon and (kind := SELECTOR_PREFIXES.get(start + colon)):
            found.kinds, found.states, found.prefix = (kind,), states, rest
            return kept + len(start) + 1
        if colon and (known := PREFIXED_WORDS.get(start + colon)):
            found.rows, found.prefix = [*found.rows, *known], rest
            return kept + len(start) + 1
        if found.prefix[:1].isdigit() and "-" in found.prefix:
            cut = found.prefix.rfind("-") + 1
            kept, found.prefix = kept + cut, found.prefix[cut:]
            found.kinds, found.states = ("job",), states
            return kept
        # An id, a queue or a name: what the letters before the cursor still allow.
        if found.prefix.isdigit() or (joined and not joined.strip("0123456789,-")):
            found.kinds, found.states = ("job",), states
            return kept
        found.kinds, found.states = ASKED["selector"], states
        found.rows += [("all", "every job"), ("@", "the last job"), *((state, "") for state in states or STATES)]
        found.rows += PREFIXES
        return kept
