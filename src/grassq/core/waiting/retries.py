"""Whether a failed attempt is tried again, and how long the job waits before."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grassq.core.forecast.draws import uniform
from grassq.core.names import shown
from grassq.core.options.signal_names import SIGNALS, signal_number
from grassq.core.outcome import SIGNAL_BASE
from grassq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.core.model import Job

#: The delay before each retry of a job that asks for none.
RETRY_DELAY_S = 5.0
#: Words that --retry-on takes besides exit codes and signals.
WORDS = ("timed_out", "oom", "signalled")
WORDS_MAX = 64
#: A delay between two ends varies by this share, so that jobs which failed together do not start again together.
JITTER = 0.2
#: What the first delay is about, where the least one is 0: no number of doublings makes anything of 0.
FIRST_DELAY_S = 1.0

_SIGKILL = SIGNALS["KILL"]
_CODE = re.compile(r"[0-9]{1,3}")


def read_failures(text: str, what: str) -> tuple[str, ...]:
    """Read `137,oom,timed_out,SIGSEGV`: exit codes, signals and words for ends of an attempt."""
    words = [word.strip() for word in text.split(",")]
    return check_failures(words, what)


def check_failures(words: Sequence[str], what: str) -> tuple[str, ...]:
    """Return ends of attempts in their one spelling, each once; raise BadInput for any other word."""
    if not 1 <= len(words) <= WORDS_MAX:
        raise BadInput(f"{what} needs 1 to {WORDS_MAX} exit codes, signals or words, not {len(words)}")
    return tuple(dict.fromkeys(_failure(word, what) for word in words))


def _failure(word: str, what: str) -> str:
    if word.lower() in WORDS:
        return word.lower()
    if _CODE.fullmatch(word) and 1 <= int(word) <= 255:
        return str(int(word))
    number = None if word.isdigit() else signal_number(word)
    if number is None:
        known = ", ".join(WORDS)
        raise BadInput(f"{what} needs exit codes from 1 to 255, signals such as SIGSEGV, or {known}, not {shown(word)}")
    return str(SIGNAL_BASE + number)


def matches(job: Job, failures: Sequence[str]) -> bool:
    """Tell whether the last attempt of a job ended in one of these ways.

    A code above 128 is also the signal that shells write so: 137 is SIGKILL. Memory that ran out looks like SIGKILL.
    """
    code = job.exit_code if job.signal is None else SIGNAL_BASE + job.signal
    ends = {str(code), str(job.outcome)}
    if code == SIGNAL_BASE + _SIGKILL and job.outcome != "timed_out":
        ends.add("oom")
    if job.signal is not None:
        ends.add("signalled")
    return not ends.isdisjoint(failures)


def is_tried_again(job: Job) -> bool:
    """Tell whether a job whose attempt has just failed is started again."""
    spec = job.spec
    if job.tried >= spec.tries or job.outcome == "spawn_failed":
        return False
    return (not spec.retry_on or matches(job, spec.retry_on)) and not matches(job, spec.no_retry_on)


def delay_s(job: Job) -> float:
    """Return the seconds before the next try of a job: about twice as many after each failure, up to the most.

    The job and the try decide where in the part of the spread that lies between the ends; a single delay is exact.
    """
    low, high = job.spec.retry_delay_s or (RETRY_DELAY_S, RETRY_DELAY_S)
    doubled = min(high, (low or FIRST_DELAY_S) * 2.0 ** min(job.tried - 1, 64))
    least, most = max(low, doubled * (1.0 - JITTER)), min(high, doubled * (1.0 + JITTER))
    return min(most, least + (most - least) * uniform(job.id, job.tried))
