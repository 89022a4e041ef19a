"""Amounts and times, as Slurm writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grassq.core.names import shown
from grassq.errors import BadInput

#: The most digits of a number, and the most of anything that is counted.
DIGITS_MAX = 9
#: The signals that --signal and scancel name, without SIG.
SIGNALS = ("HUP", "INT", "QUIT", "KILL", "TERM", "USR1", "USR2", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "ALRM", "ABRT")
#: Seconds before the end at which --signal without a time is sent.
SIGNAL_S = 60

_TIME = re.compile(r"(?:(?P<days>\d{1,9})-)?(?P<rest>\d{1,9}(?::\d{1,9}){0,2})")
_SIZE = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,6})?)(?P<unit>[kmgt]?)b?", re.IGNORECASE)
_MIB = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}
_AMOUNT = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
_VARIABLE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_SIGNAL = re.compile(r"(?P<to>[RB]{0,2}:)?(?P<name>[A-Za-z0-9]+)(?:@(?P<seconds>\d{1,9}))?")


def number(text: str, what: str, least: int = 1) -> int:
    """Return a whole number; Slurm's 4k is 4096."""
    factor = 1024 if text[-1:] in ("k", "K") else 1
    digits = text[:-1] if factor > 1 else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX) or int(digits) * factor < least:
        raise BadInput(f"invalid numeric value {shown(text)} for {what}")
    return int(digits) * factor


def time_limit_s(text: str, what: str = "--time") -> float | None:
    """Return a time in seconds; None for no limit.

    MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM and D-HH:MM:SS are Slurm's forms.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise BadInput(f"invalid {what} {shown(text)}; write MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS")
    parts = [int(part) for part in match["rest"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return float(int(match["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds) or None
    hours, minutes, seconds = {1: (0, *parts, 0), 2: (0, *parts), 3: tuple(parts)}[len(parts)]
    return float(hours * 3600 + minutes * 60 + seconds) or None


def memory_mib(text: str, what: str) -> float:
    """Return a size in MiB, which a bare number is."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadInput(f"invalid {what} {shown(text)}; write 4000 (MiB), 512M, 4G or 1T")
    return float(match["number"]) * _MIB[match["unit"].lower()]


def amount(text: str, what: str) -> float:
    """Return how many of a device; Grass also gives a part of one."""
    if _AMOUNT.fullmatch(text) is None:
        raise BadInput(f"invalid {what} {shown(text)}; write a number, such as 2 or 0.5")
    return float(text)


def gpus(text: str, what: str) -> tuple[float, list[str]]:
    """Return how many GPUs `2`, `a100:2` or `a100:1,v100:1` are, and the types."""
    total, types = 0.0, []
    for part in text.split(","):
        kind, colon, count = part.rpartition(":")
        if not colon and _AMOUNT.fullmatch(part) is None:
            kind, count = part, "1"
        total += amount(count, what)
        types += [kind] if kind else []
    return total, types


def gres(text: str) -> tuple[dict[str, float], list[str]]:
    """Return the amounts that --gres=NAME[:TYPE][:COUNT],... names, by resource, and the types."""
    amounts: dict[str, float] = {}
    types: list[str] = []
    if text.lower() == "none":
        return amounts, types
    for part in text.split(","):
        words = part.removeprefix("gres:").removeprefix("gres/").split(":")
        name, rest = words[0].lower(), words[1:]
        count = rest.pop() if rest and _AMOUNT.fullmatch(rest[-1]) else "1"
        if not name or len(rest) > 1 or not all(rest):
            raise BadInput(f"invalid --gres {shown(text)}; write gpu:2, gpu:a100:1 or NAME:COUNT")
        amounts[name] = amounts.get(name, 0.0) + amount(count, "--gres")
        types += rest
    return amounts, types


def signal_name(text: str, what: str) -> str:
    """Return the name of a signal without SIG, from its name or number."""
    name = text.upper().removeprefix("SIG")
    numbers = {"1": "HUP", "2": "INT", "3": "QUIT", "6": "ABRT", "9": "KILL", "10": "USR1", "12": "USR2", "14": "ALRM"}
    numbers |= {"15": "TERM", "18": "CONT", "19": "STOP", "20": "TSTP", "21": "TTIN", "22": "TTOU"}
    name = numbers.get(name, name)
    if name not in SIGNALS:
        raise BadInput(f"invalid {what} {shown(text)}; the signals are {', '.join(SIGNALS)}")
    return name


def warning(text: str) -> tuple[str, int, bool]:
    """Return the signal of --signal=[B:]SIG[@seconds], its seconds before the end, and whether the script gets it."""
    match = _SIGNAL.fullmatch(text)
    if match is None:
        raise BadInput(f"invalid --signal {shown(text)}; write USR1, USR1@120 or B:USR1@120")
    seconds = SIGNAL_S if match["seconds"] is None else int(match["seconds"])
    return signal_name(match["name"], "--signal"), seconds, "B" in (match["to"] or "")


def export(text: str, env: Mapping[bytes, bytes]) -> tuple[dict[bytes, bytes] | None, list[tuple[bytes, bytes]]]:
    """Return the variables that --export passes on, None for those of a login shell, and the ones that it sets."""
    passed: dict[bytes, bytes] | None = None
    own: list[tuple[bytes, bytes]] = []
    for part in _export_parts(text):
        name, equals, value = (os_bytes(each) for each in part.partition("="))
        if part.upper() == "ALL":
            passed = dict(env)
        elif part.upper() in ("NONE", "NIL", ""):
            continue
        elif _VARIABLE.fullmatch(name) is None:
            raise BadInput(f"--export {shown(text)}: {shown(name)} is not the name of a variable")
        elif equals:
            own.append((name, value))
        elif name in env:
            own.append((name, env[name]))
    return passed, own


def _export_parts(text: str) -> list[str]:
    """Return the parts between commas; a comma inside of quotes is a part of its value."""
    parts, quote, part = [], "", ""
    for letter in text:
        if quote:
            quote, part = ("", part) if letter == quote else (quote, part + letter)
        elif letter in "\"'":
            quote = letter
        elif letter == ",":
            parts.append(part)
            part = ""
        else:
            part += letter
    return [*parts, part]


def os_bytes(text: str) -> bytes:
    """Return the bytes of a word as it was typed."""
    return text.encode("utf-8", "surrogateescape")
