"""Shortens commands so that what differs between them can be seen: the values of a sweep, not their common begin."""

from __future__ import annotations

from grassq.cli import job_text, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Of a longer command only this much is read, in characters and in words.
CHARS_READ, WORDS_READ = 4000, 400
_SHELLS = ("bash", "sh", "zsh", "dash")


def command_text(job: Mapping[str, Any]) -> str:
    """Return the command of a job as one clean line."""
    return render.clean(job_text.command(job)[:CHARS_READ])


def shortened(
    jobs: Sequence[Mapping[str, Any]], width: int, among: Sequence[Mapping[str, Any]] = (), *, mark: str | None = None
) -> list[str]:
    """Return the commands of jobs; those that are wider than `width` without what they share with commands like them.

    Commands are alike if their jobs have one name, or if they begin with the same two words; `among` has further jobs
    to compare with, and `mark` stands for what is left out. A command may still be too wide; then its end can be cut
    off without losing what tells it from the others.
    """
    texts = [command_text(job) for job in jobs]
    kinds = [_kind(job, text) for job, text in zip(jobs, texts, strict=True)]
    # Commands that are alike are shortened alike, also those that would fit.
    wide = {kind for kind, text in zip(kinds, texts, strict=True) if render.columns(text) > width}
    if not wide:
        return texts
    alike: dict[tuple[str, ...], dict[str, str]] = {kind: {} for kind in wide}
    for job, text in [*zip(jobs, texts, strict=True), *((job, command_text(job)) for job in among)]:
        if (kind := _kind(job, text)) in wide:
            alike[kind][text] = text
    for several in alike.values():
        if len(several) > 1:
            parts = differing([text.split(" ")[:WORDS_READ] for text in several], mark)
            several.update(zip(list(several), parts, strict=True))
    shown = [alike[kind][text] if kind in wide else text for kind, text in zip(kinds, texts, strict=True)]
    return [part if render.columns(part) <= width else _without_shell(part) for part in shown]


def _kind(job: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """Return what commands have in common that are alike."""
    return (str(job["name"]),) if job.get("name") else ("", *text.split(" ", 2)[:2])


def differing(commands: Sequence[Sequence[str]], mark: str | None = None) -> list[str]:
    """Return of each command, given as words, what is not the same in all of them.

    The name of an option stays with its value. Commands of one length are compared word by word; others lose the
    words at their begin and at their end that all of them have.
    """
    mark = mark or ("…" if render.is_utf8() else "...")
    length = len(commands[0])
    if all(len(words) == length for words in commands):
        places = [place for place in range(length) if any(words[place] != commands[0][place] for words in commands)]
        kept = sorted({*places, *(place - 1 for place in places if place and commands[0][place - 1].startswith("-"))})
        return [" ".join([mark][: kept[0]] + [words[place] for place in kept]) for words in commands]
    shortest = min(map(len, commands))
    first, *others = commands
    begin = _common(first, others, shortest - 1)
    end = _common(first[::-1], [words[::-1] for words in others], shortest - begin - 1)
    # An option and its value are not torn apart.
    if begin and first[begin - 1].startswith("-"):
        begin -= 1
    return [" ".join([mark][:begin] + list(words[begin : len(words) - end]) + [mark][:end]) for words in commands]


def _common(first: Sequence[str], others: Sequence[Sequence[str]], most: int) -> int:
    """Return how many words all commands have in common at their begin, at most `most`."""
    count = 0
    while count < most and all(words[count] == first[count] for words in others):
        count += 1
    return max(count, 0)


def _without_shell(text: str) -> str:
    """Return a long command without what says nothing: `bash -c`, and the folder of its program."""
    words = text.split(" ")
    if len(words) > 2 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-lc", "-ic", "-ec"):
        line = " ".join(words[2:])
        return line.strip("'") if line.startswith("'") else line
    folder, slash, name = words[0].rpartition("/")
    return " ".join([name, *words[1:]]) if slash and len(folder) > 1 and name else text
