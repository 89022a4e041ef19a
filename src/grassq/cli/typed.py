"""Finds options among words that the daemon splits. Light to load, because `enqueue` uses it."""

from __future__ import annotations

from grassq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The options in core/job_options.py whose value is the next word; a test compares the two.
# fmt: off
VALUE_OPTIONS = frozenset({
    "--require", "--gpu", "--cpu", "--mem", "--vram", "--disk", "--env", "-e", "--cwd", "--queue", "--name",
    "--priority", "--grace", "--on-lost", "--tries", "--retries", "--broker", "--worker", "--label",
    "--send", "--fetch", "--fetch-to", "--env-from", "--python", "--setup", "--setup-files", "--log-max",
    "--notify", "--output", "--wrap", "--project", "--time-limit", "--retry-delay",
    "--retry-on", "--no-retry-on", "--after", "--after-any", "--after-fail", "--at", "--in",
    "--warn", "--idle-limit", "--tag", "--unique", "--array", "--each", "--at-once",
    "--max-fails",
})
# fmt: on


def wants_help(words: list[str]) -> bool:
    """Tell whether -h or --help is among the options before the job; after the first word it belongs to the job."""
    return has_flag(("-h", "--help"), words)


def has_flag(
    flags: tuple[str, ...], words: list[str], values: frozenset[str] = VALUE_OPTIONS, *, names: int = 0
) -> bool:
    """Tell whether one of the flags is among the options before the job; `values` and `names` as in `take_option`."""
    return any(words[place] in flags for place in _option_places(words, values, names))


def take_flag(flag: str, words: list[str], *, names: int = 0) -> tuple[bool, list[str]]:
    """Tell whether a flag is among the options before the job, and return the words without it; `names` as below."""
    places = {place for place in _option_places(words, VALUE_OPTIONS, names) if words[place] == flag}
    return bool(places), [word for place, word in enumerate(words) if place not in places]


def take_option(
    option: str, words: list[str], values: frozenset[str] = VALUE_OPTIONS, *, names: int = 0
) -> tuple[str | None, list[str]]:
    """Return the value of an option before the job, and the words without it.

    `values` are the options whose value is the next word; `names` plain words may stand among the options.
    """
    found, left = None, words
    for place in _option_places(words, values, names):
        head, equals, value = words[place].partition("=")
        if head != option:
            continue
        width = 1 if equals else 2
        value = value if equals else "".join(words[place + 1 : place + 2])
        if not value or found is not None:
            raise BadInput(f"{option} {'needs a value' if not value else 'is given twice'}")
        found, left = value, words[:place] + words[place + width :]
    return found, left


def last_value(option: str, words: list[str], *, names: int = 0) -> str | None:
    """Return the last value of an option before the job, as far as it has one; `names` as in `take_option`."""
    found = None
    for place in _option_places(words, VALUE_OPTIONS, names):
        head, equals, value = words[place].partition("=")
        if head == option:
            found = value if equals else "".join(words[place + 1 : place + 2])
    return found


def _option_places(words: list[str], values: frozenset[str], names: int) -> Iterator[int]:
    skip = False
    for place, word in enumerate(words):
        if skip:
            skip = False
        elif word.startswith("-") and word != "--":
            yield place
            skip = word in values
        elif word == "--" or not names:
            return
        else:
            names -= 1
