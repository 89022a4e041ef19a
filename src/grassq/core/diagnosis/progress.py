"""Reads how far a job is from the last lines of its log: bars of tqdm, rich, keras and pip, "epoch 3/10", "73%"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

#: Of a longer line, only the first characters and the last are read: a bar is short.
HEAD_CHARS, TAIL_CHARS = 300, 200
#: How many of the last lines are read: a bar, and the bar around it.
LINES_READ = 4
#: How many counts of one line are looked at.
COUNTS_READ = 4
#: A longer time is not believed.
LEFT_S_MAX = 10 * 365 * 86400.0

_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15}(?:\.\d{1,9})?)"
_SCALE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
#: A count out of a total: `730/1000`, `1.2k/5.0k`, `12.3/45.6 MB`, `3 of 10`. Not a part of a path or of a date.
_COUNT = re.compile(
    rf"(?<![\w/.:-])({_NUMBER}) ?([kKMGTP]?)(?:i?B|it)?(?: ?/ ?| of )"
    rf"({_NUMBER}) ?([kKMGTP]?)(?:i?B|it)?(?![\w/:.-]\w|/)"
)
_PERCENT = re.compile(rf"(?<![\w.])({_NUMBER}) ?%(?!\w)")
#: What tqdm writes behind its bar: how long it took, how long it will take, and how fast it is.
_TQDM = re.compile(r"\[((?:\d+ days?, )?[\d:]{1,12})(?:<((?:\d{1,5} days?, )?[\d:]{1,12}|\?))?, ([^\],]{1,40})")
#: A bar of tqdm without a total: `730it [01:12, 10.1it/s]`.
_ENDLESS = re.compile(rf"({_NUMBER})([kKMGTP]?) ?([A-Za-z]{{1,12}}) \[")
_RATE = re.compile(rf"(?<![\w.])({_NUMBER}) ?([kKMGTP]?)(?:i?B|[A-Za-z]{{1,12}})/s(?:ec)?\b")
_PACE = re.compile(rf"(?<![\w.])({_NUMBER}) ?(ms|us|µs|s|m|h)/[A-Za-z]{{1,12}}\b")
_PACE_S = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
#: A time that is left, after a word that says so.
_LEFT = re.compile(
    r"\b(?:eta|remaining|time left|left)\b[:=~ ]{0,3}((?:\d{1,5} ?days?,? ?)?"
    r"(?:\d{1,6}:\d\d(?::\d\d)?|(?:\d{1,6} ?[dhms]\w{0,6} ?){1,4}))",
    re.IGNORECASE,
)
#: How rich, pip and keras write the time left, without a word: behind the bar, `0:00:12` or `12s`.
_BARE_LEFT = re.compile(r"(?<![\w:.])(\d{1,5}:\d\d(?::\d\d)?|\d{1,6}s)(?![\w:.])")
_PARTS = re.compile(r"(\d{1,6}) ?([dhms])")
_BAR = frozenset("━╸╺█▉▊▋▌▍▎▏▓▒░#=>")
#: The words that may stand before a count so that it is a count of work done.
_STEP_WORDS = re.compile(
    r"\b(?:epochs?|steps?|iter(?:ation)?s?|batch(?:es)?|trials?|folds?|tasks?|files?|examples?|samples?|items?|rounds?|"
    r"episodes?|games?|chunks?|shards?|pages?|images?|runs?|processed|done|completed?|finished|progress|it)\b",
    re.IGNORECASE,
)
_PROGRESS_WORDS = re.compile(r"\b(?:progress|done|completed?|finished|processed|processing|training|loading)\b", re.I)
_EPOCH = re.compile(rf"\bepochs?\b[ :=#\[(]{{0,3}}({_NUMBER}) ?(?:/|of) ?({_NUMBER})", re.IGNORECASE)


class JobProgress(Struct, frozen=True):
    """How far a job is. Every field may be None: not said in the log."""

    #: Units of work: steps, epochs, bytes.
    done: float | None = None
    total: float | None = None
    #: From 0 to 1.
    fraction: float | None = None
    left_s: float | None = None
    #: Units of work per second.
    rate: float | None = None


def read(lines: Sequence[str]) -> JobProgress | None:
    """Return how far a job is, from the last lines of its log, the newest last; None if the lines do not say it.

    Of a bar inside of another bar, both count: "epoch 3/10" and a bar at 50 % are 25 % of the work.
    """
    recent = [_bounded(line) for line in lines[-LINES_READ:] if line.strip()]
    if not recent:
        return None
    found = read_line(recent[-1])
    if found is None:
        return None
    outer = _outer(recent, found)
    return found if outer is None else _within(outer, found)


def read_line(line: str) -> JobProgress | None:
    """Return how far a job is, from one line; None if the line does not say it."""
    line = _bounded(line).strip()
    if not line:
        return None
    return _read_tqdm(line) or _read_bar(line) or _read_count(line) or _read_percent(line)


def _bounded(line: str) -> str:
    if len(line) <= HEAD_CHARS + TAIL_CHARS:
        return line
    return line[:HEAD_CHARS] + " " + line[-TAIL_CHARS:]


def _outer(recent: Sequence[str], inner: JobProgress) -> tuple[float, float] | None:
    """Return the count of the loop around a bar: the number of the part that the bar is about, from 0, and all parts.

    The outer loop is named in the line itself ("Epoch 3/10: 45%|"), in the line before (keras), or is a bar of its own
    above (tqdm in tqdm).
    """
    if inner.fraction is None:
        return None
    line = recent[-1]
    match = _EPOCH.search(line)
    if match is None and len(recent) > 1:
        before = recent[-2].strip()
        match = _EPOCH.match(before) if len(before) < 40 else None
    if match is not None:
        number, total = _number(match[1]), _number(match[2])
        # The count of the epochs may be all that the line says.
        is_own = (number, total) == (inner.done, inner.total)
        return (number - 1, total) if not is_own and 1 <= number <= total and total > 1 else None
    above = _read_tqdm(recent[-2].strip()) if len(recent) > 1 and _read_tqdm(line.strip()) else None
    if above is None or above.done is None or above.total is None or not 0 <= above.done < above.total > 1:
        return None
    return above.done, above.total


def _within(outer: tuple[float, float], inner: JobProgress) -> JobProgress:
    """Return the progress of a loop whose current part is at `inner`."""
    done, total = outer
    assert inner.fraction is not None
    fraction = min(1.0, (done + inner.fraction) / total)
    left_s = None
    if inner.left_s is not None and inner.fraction < 1:
        # The parts to come are supposed to take as long as the current one.
        part_s = inner.left_s / (1 - inner.fraction)
        left_s = inner.left_s + (total - done - 1) * part_s
    return JobProgress(done, total, fraction, _believed(left_s))


def _read_tqdm(line: str) -> JobProgress | None:
    match = _TQDM.search(line)
    if match is None:
        return None
    before = line[: match.start() + 1]
    left_s = None if match[2] in (None, "?") else _clock_s(match[2])
    rate = _rate(match[3])
    counted = _last(_COUNT, before)
    if counted is not None and (progress := _counted(counted)) is not None:
        return replace(progress, left_s=left_s, rate=rate)
    if (percent := _last(_PERCENT, before)) is not None and (fraction := _fraction(percent[1])) is not None:
        return JobProgress(fraction=fraction, left_s=left_s, rate=rate)
    endless = _ENDLESS.search(line)
    if endless is not None and endless.end() == match.start() + 1:
        return JobProgress(done=_number(endless[1]) * _SCALE[endless[2]], rate=rate)
    return None


def _read_bar(line: str) -> JobProgress | None:
    """Read a line with a bar of other programs: rich, keras, pip, wget."""
    at = next((index for index in range(len(line) - 2) if _BAR.issuperset(line[index : index + 3])), None)
    if at is None and not re.search(r"\[[=#>.\-* ]{8,80}\]", line):
        return None
    left_s = _left_s(line)
    if left_s is None and (bare := _BARE_LEFT.search(line, at or 0)) is not None:
        left_s = _clock_s(bare[1])
    rate = _rate(line)
    counted = _COUNT.search(line)
    if counted is not None and (progress := _counted(counted)) is not None:
        if progress.fraction == 1.0:
            left_s = 0.0  # keras writes here how long the epoch took
        return replace(progress, left_s=left_s, rate=rate)
    percent = _PERCENT.search(line)
    fraction = None if percent is None else _fraction(percent[1])
    return None if fraction is None else JobProgress(fraction=fraction, left_s=left_s, rate=rate)


def _read_count(line: str) -> JobProgress | None:
    """Read "epoch 3/10", "[100/2000] loss 0.3", "12 of 40 files": a count beside a word of work, or at the beginning.

    In "epoch 3/10, step 100/200" the steps are returned; `read` counts the epochs around them.
    """
    found = None
    for match in list(_COUNT.finditer(line))[:COUNTS_READ]:
        before, behind = line[: match.start()], line[match.end() :]
        is_first = not before.strip("[( ")
        is_boxed = before.endswith(("[", "(")) and behind.startswith(("]", ")"))
        is_named = bool(_STEP_WORDS.search(before[-24:]) or _STEP_WORDS.match(behind[:16].lstrip()))
        has_percent = _PERCENT.match(behind.lstrip(" ([")) is not None
        progress = _counted(match) if is_first or is_boxed or is_named or has_percent else None
        if progress is None or (not is_named and progress.total == 1):
            continue
        found = progress
        if not _EPOCH.search(line[max(0, match.start() - 16) : match.end()]):
            break
    return None if found is None else replace(found, left_s=_left_s(line), rate=_rate(line))


def _read_percent(line: str) -> JobProgress | None:
    """Read "73%" where it stands alone, at the beginning, or beside a word of progress; an accuracy is no progress."""
    match = _PERCENT.search(line)
    if match is None or (fraction := _fraction(match[1])) is None:
        return None
    is_first = not line[: match.start()].strip("[( ")
    near = line[max(0, match.start() - 32) : match.end() + 16]
    if not is_first and not _PROGRESS_WORDS.search(near):
        return None
    return JobProgress(fraction=fraction, left_s=_left_s(line), rate=_rate(line))


def _counted(match: re.Match[str]) -> JobProgress | None:
    done, total = _number(match[1]), _number(match[3])
    # `12.3/45.6 MB`: one unit for both numbers.
    unit = match[4]
    done, total = done * _SCALE[match[2] or unit], total * _SCALE[unit]
    if total <= 0 or not 0 <= done <= total:
        return None
    return JobProgress(done, total, done / total)


def _fraction(percent: str) -> float | None:
    value = _number(percent) / 100
    return value if 0 <= value <= 1 else None


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def _rate(text: str) -> float | None:
    if (match := _RATE.search(text)) is not None:
        return _number(match[1]) * _SCALE[match[2]]
    if (match := _PACE.search(text)) is not None and (pace := _number(match[1]) * _PACE_S[match[2]]) > 0:
        return 1 / pace
    return None


def _left_s(text: str) -> float | None:
    match = _LEFT.search(text)
    return None if match is None else _clock_s(match[1])


def _clock_s(text: str) -> float | None:
    """Return a duration in seconds: `26`, `1:02:03`, `1 day, 2:00:00`, `3s`, `1h2m`."""
    seconds = 0.0
    if "day" in text:
        days, _, text = text.partition("day")
        seconds = 86400.0 * float(re.sub(r"\D", "", days)[:6] or 0)
        text = text.lstrip("s, ")
    if ":" in text:
        parts = text.split(":")
        if len(parts) > 3 or not all(part.isdigit() for part in parts):
            return None
        whole = 0.0
        for part in parts:
            whole = 60 * whole + float(part)
        return _believed(seconds + whole)
    units = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
    found = _PARTS.findall(text)
    if found:
        return _believed(seconds + sum(float(count) * units[unit] for count, unit in found))
    return _believed(seconds) if seconds else None


def _believed(left_s: float | None) -> float | None:
    return left_s if left_s is not None and 0 <= left_s <= LEFT_S_MAX else None
