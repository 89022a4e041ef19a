"""The text that `grass edit` opens in an editor: TOML with a comment for each option, and back."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from grassq.cli import render
from grassq.core.job_options import JOB_OPTIONS
from grassq.errors import BadInput

#: Texts that an editor returns are read up to this size.
TEXT_MAX = 16 << 20
#: A list that would be longer has a line for each word.
LINE_MAX = 100
#: The options that come first; the others follow as the daemon lists them.
FIRST = ("command", "require", "priority", "queue", "name")
_HELP = {option.name: option for option in reversed(JOB_OPTIONS)}
_COMMENTS = {
    "command": 'the program and its words; or one line: "python train.py > out"',
    "queue": "the queue",
    "env": 'variables on top of the submitter\'s: ["NAME=VALUE"]',
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write(id_: int, state: str, values: Mapping[str, Any]) -> str:
    """Return the text of a job; an option that was not given is a comment."""
    lines = [
        f"# Job {int(id_)} ({render.clean(state)}). Save the text and close the editor to change the job.",
        "# A line that you remove gets its default. A text without changes changes nothing.",
    ]
    for name in (*(each for each in FIRST if each in values), *(each for each in values if each not in FIRST)):
        option = _HELP.get(name)
        comment = _COMMENTS.get(name) or (option.help if option is not None else "")
        lines += ["", *([f"# {comment}"] if comment else [])]
        if values[name] in (None, []) and name != "command":
            lines.append(f"#{_key(name)} = {_example(name)}")
        else:
            lines.append(f"{_key(name)} = {_value(values[name])}")
    return "\n".join(lines) + "\n"


def _example(name: str) -> str:
    option = _HELP.get(name)
    word = json.dumps(option.value if option is not None else "")
    return f"[{word}]" if option is not None and option.repeats else word


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _value(value: Any) -> str:
    if isinstance(value, list):
        words = [_value(each) for each in value]
        line = f"[{', '.join(words)}]"
        return line if len(line) <= LINE_MAX else "".join(["[\n", *(f"    {word},\n" for word in words), "]"])
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + " }"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    # The escapes of JSON are escapes of TOML. What an editor would not show is an escape too.
    written = json.dumps(text, ensure_ascii=False)
    return written if written.isprintable() else "".join(map(_escaped, written))


def _escaped(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def read(raw: bytes) -> dict[str, Any]:
    """Return the values in a text by name; raise BadInput, which names the line, if it is no TOML."""
    if len(raw) > TEXT_MAX:
        raise BadInput(f"the text has more than {TEXT_MAX >> 20} MiB")
    try:
        values = tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        raise BadInput("the text is not UTF-8; write other bytes of a word as { b64 = ... }") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this is not TOML: {' '.join(str(error).split())[:200] or 'too deep'}") from None
    for name, value in values.items():
        _check(name, value)
    return values


def _check(name: str, value: object) -> None:
    """Refuse what has no form in JSON."""
    if isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            _check(name, each)
    elif isinstance(value, float) and not abs(value) < float("inf"):
        raise BadInput(f"{name} needs a finite number")
    elif not isinstance(value, str | int | float):
        raise BadInput(f"{name} is a date or a time; put it into quotes")


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs; None for what was removed."""
    names = [*after, *(name for name in before if name not in after)]
    return {name: after.get(name) for name in names if not _same(before.get(name), after.get(name))}


def _same(one: Any, other: Any) -> bool:
    # To Python, true equals 1.
    return one == other and isinstance(one, bool) == isinstance(other, bool)
