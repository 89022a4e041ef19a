"""Notes about the words of a job that were probably meant otherwise. The job is submitted all the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from grassq.core.job_options import Pairs
from grassq.core.names import plain, shown
from grassq.core.syntax.options import ENQUEUE, is_option, resource_of
from grassq.core.syntax.resource_names import COMMON_RESOURCES

#: Words that a shell would not pass on to the program.
_OPERATORS = frozenset((b"|", b"|&", b"||", b"&&", b"&", b">", b">>", b"<", b"<<<", b"2>", b"2>>", b"2>&1", b"&>"))
#: Programs that take such words as operators of their own.
_HAVE_OPERATORS = frozenset((b"expr", b"test", b"["))
_AMOUNT_STARTS = tuple(bytes([byte]) for byte in b"0123456789.")
#: Options whose value is mostly minutes or hours.
_LONG_TIMES = ("time-limit", "idle-limit", "in")
_SILENT = "`--` before the command silences this note"


def notes_on_units(given: Mapping[str, Sequence[bytes]]) -> Iterator[str]:
    """Yield a note for each long time that is typed without a unit: other tools count minutes."""
    for name in _LONG_TIMES:
        for value in given.get(name, ()):
            if value.isdigit():
                number = value.decode()
                yield f"--{name} {number} is {number} seconds; write {number}s, or {number}m for minutes"


def notes_on_options(words: Sequence[bytes], asked: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Yield a note if the job is given an option that Grass would have read elsewhere.

    `asked` are the resources that the job asks for; `known` are those that the queue or the machine has.
    """
    end = words.index(b"--") if b"--" in words else len(words)
    if not end:
        return
    if is_option(words[0]):
        yield from _behind_an_option(words[:end], known)
    else:
        yield from _behind_the_program(words[:end], asked, known)


def _behind_an_option(words: Sequence[bytes], known: Collection[str]) -> Iterator[str]:
    first = plain(words[0])
    for word in words[1:]:
        head, equals, _ = word.partition(b"=")
        resource = resource_of(head)
        is_amount = resource in known and (bool(equals) or resource in COMMON_RESOURCES)
        is_ours = head in ENQUEUE and head.startswith(b"--") and not (equals and ENQUEUE[head].takes == "flag")
        if is_amount or is_ours:
            yield (
                f"{plain(word)} is passed to the job, because it comes after {first}; "
                f"to have Grass read it, put it before {first} ({_SILENT})"
            )
            return


def _behind_the_program(words: Sequence[bytes], asked: Collection[str], known: Collection[str]) -> Iterator[str]:
    for at, word in enumerate(words[1:], 1):
        head, equals, amount = word.partition(b"=")
        resource = resource_of(head)
        if resource is None or resource in asked or resource not in known:
            continue
        if not equals and resource not in COMMON_RESOURCES:
            continue
        amount = amount if equals else b"".join(words[at + 1 : at + 2])
        if amount.startswith(_AMOUNT_STARTS):
            # `--gpu 0` names a device to many programs.
            wanted = "1" if amount == b"0" else plain(amount)
            yield (
                f"{plain(word)} is passed to the job, and the job asks Grass for no {resource}; "
                f"to ask for it, write --{resource}={wanted} before {plain(words[0])} ({_SILENT})"
            )
            return


def notes_on_operators(words: Sequence[bytes], *, are_arguments: bool) -> Iterator[str]:
    """Yield a note if an operator of a shell is among the words, which may be arguments of a queue's command."""
    operator = next((word for word in words[1:] if word in _OPERATORS), None)
    if operator is not None and words[0].rpartition(b"/")[2] not in _HAVE_OPERATORS:
        advice = "; to have a shell read it, add --shell and put the whole command in quotes"
        yield f"{shown(operator)} is passed to the job as a word" + ("" if are_arguments else advice)


def notes_on_variables(assigned: Pairs) -> Iterator[str]:
    """Yield a note for a variable of the job that has the name of a resource."""
    for name, value in assigned:
        if name.decode("ascii", "replace") in COMMON_RESOURCES and value.startswith(_AMOUNT_STARTS):
            word = plain(name + b"=" + value)
            yield f"{word} sets a variable of the job; to ask for the resource: --{word}"
