"""JSON5 as people type it: unquoted keys, single quotes, trailing commas, `.5`, comments.

The text is rewritten as JSON, token by token, and `json` reads the result. It takes microseconds, so that a request can
be read on the event loop.
"""

from __future__ import annotations

import json
import re

from grassq.core.names import shown
from grassq.core.syntax.numbers import DIGITS_MAX
from grassq.errors import BadInput

TEXT_MAX = 4 << 10

_TOKEN = re.compile(
    r"""(?P<blank>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)
    |(?P<text>"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
    |(?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))
    |(?P<name>[^\W\d][\w$]*|\$[\w$]*)
    |(?P<mark>[][{}:,])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LINE_ENDS = ("\n", "\r", "\r\n", "\u2028", "\u2029")
_LITERALS = ("true", "false", "null")


def parse_object(text: str, what: str) -> dict[str, object]:
    """Return an object such as {gpu: 0.5}; raise BadInput if the text is anything else."""
    if len(text) > TEXT_MAX:
        raise BadInput(f"{what} is longer than {TEXT_MAX:,} characters")
    try:
        value = json.loads(_as_json(text), object_pairs_hook=_no_duplicates, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{what} {shown(text)} is not JSON5{_reason(error)}; names may be bare, ids are quoted: "
            "{gpu: 0.5} or {gpu: {'2': 1}}"
        ) from None
    if not isinstance(value, dict):
        raise BadInput(f"{what} {shown(text)} is not an object; write it as in {{gpu: 0.5}}")
    return value


def parse_value(text: str, what: str) -> object:
    """Return any JSON5 value."""
    return parse_object(f"{{x: {text}}}", what)["x"]


def _as_json(text: str) -> str:
    """Return the text as JSON; raise ValueError at a character that begins no token. `json` checks their order."""
    out: list[str] = []
    at, name = 0, ""
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"unexpected {shown(text[at])} at column {at + 1}")
        at, token = found.end(), found[0]
        if found.lastgroup == "blank":
            continue
        if name:
            out.append(_name(name, is_key=token == ":"))
            name = ""
        match found.lastgroup:
            case "text":
                out.append(json.dumps(_ESCAPE.sub(_unescaped, token[1:-1])))
            case "number":
                out.append(_number(token))
            case "name":
                name = token
            case _:
                # A comma after the last value; `json` refuses a comma after anything else.
                if token in "]}" and out[-1:] == [","] and out[-2:-1] not in (["["], ["{"], [","], [":"]):
                    out.pop()
                out.append(token)
    return " ".join([*out, _name(name, is_key=False)] if name else out)


def _name(name: str, *, is_key: bool) -> str:
    if is_key:
        return json.dumps(name)
    if name not in _LITERALS:
        raise ValueError(f"{shown(name)} is not a value; a text is quoted")
    return name


def _number(token: str) -> str:
    digits = token.lstrip("+-")
    sign = "-" if token.startswith("-") else ""
    if digits[:2] in ("0x", "0X"):
        if len(digits) > DIGITS_MAX:
            raise ValueError("a number is too long")
        return f"{sign}{int(digits, 16)}"
    whole, dot, rest = digits.partition(".")
    if dot and not rest[:1].isdigit():
        rest = f"0{rest}"
    return f"{sign}{whole or '0'}{dot}{rest}"


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] in "ux" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape in _LINE_ENDS:
        return ""
    if escape in "ux123456789":
        raise ValueError(f"a text holds the unknown escape \\{escape}")
    return _ESCAPES.get(escape, escape)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)


def _whole(digits: str) -> int:
    if len(digits) > DIGITS_MAX + 1:
        raise ValueError("a number is too long")
    return int(digits)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f" ({error.msg})"
    return "" if isinstance(error, RecursionError) else f" ({str(error)[:120]})"
