"""Words of other tools that people type as commands: what Grass does with them, or what to type instead."""

from __future__ import annotations

import shlex

#: Words with one harmless meaning, and the words they stand for.
UNDERSTOOD = {
    **dict.fromkeys(("ls", "ps", "list", "jobs", "stat", "state", "squeue", "qstat", "sinfo", "get"), ("show",)),
    **dict.fromkeys(("queues", "nodes", "workers", "hosts"), ("show",)),
    **dict.fromkeys(("devices", "gpus"), ("device",)),
    **dict.fromkeys(("logs", "cat", "output", "out"), ("log",)),
    "machines": ("machine",),
    "limits": ("limit",),
    "tail": ("log", "--tail", "10"),
    "attach": ("follow",),
    "explain": ("why",),
    "settings": ("config", "show"),
    "when": ("eta",),
    "watch": ("show", "--watch=2"),
    **dict.fromkeys(("htop", "nvtop", "monitor", "tui"), ("top",)),
    **dict.fromkeys(("dashboard", "gui", "ui", "page", "browser"), ("web",)),
    **dict.fromkeys(("sacct", "hist", "stats"), ("history",)),
    "version": ("--version",),
}

#: The same for a word with an option of its own, which is left out.
UNDERSTOOD_WITH = {("squeue", "--start"): ("eta",)}

_END = "to end jobs: grass kill {words}"
_ADD = "to put a command into the queue: grass enqueue {words}"
_REMOVE = f"{_END}; to remove finished jobs and their logs, see `grass clean --help`"
_AGAIN = "to submit jobs again: grass rerun {words}"
_CHANGE = "to change a job that has not started: grass edit {words}"

_ANSWERS = (
    ("cancel stop-job abort terminate end scancel qdel", _END),
    ("rm del delete purge erase", _REMOVE),
    ("submit add qsub push put new", _ADD),
    ("sbatch", "to run a script with #SBATCH lines: grass-sbatch {words}; to enqueue a command: grass enqueue {words}"),
    ("sweeps", "`grass show` has a line for each sweep; `grass show sweep:ID` lists its jobs"),
    ("depend depends after", "to start a job after others: grass enqueue --after JOBS COMMAND"),
    ("tag label", "to give a job a tag: grass enqueue --tag KEY=VALUE COMMAND; `grass edit` changes a waiting job"),
    ("srun exec", "to run a command and see its output: grass run {words}"),
    ("retry requeue resubmit redo restart-job", _AGAIN),
    ("queue", "to list jobs and queues: grass show; to add a job: grass enqueue {words}"),
    ("create add-queue new-queue mkqueue", "to create a queue: grass create-queue {words}"),
    ("rm-queue del-queue remove-queue", "to remove a queue: grass delete-queue {words}"),
    (
        "unpause continue cont unsuspend",
        "to start jobs again, or to let a suspended job go on: grass resume; to let held jobs start: grass release"
        " {words}",
    ),
    ("freeze sigstop", "to stop the processes of a running job for a while: grass suspend {words}"),
    ("modify update alter", _CHANGE),
    ("mv switch", f"{_CHANGE} --set queue=QUEUE; to change its place: grass move {{words}} --first"),
    ("unhold", "to let held jobs start: grass release {words}"),
    (
        "scontrol",
        "to change a waiting job: grass edit JOB; to look at a job: grass show JOB, grass why JOB; to keep jobs from"
        " starting: grass hold JOB",
    ),
    ("salloc", "to run a command when there is room and see its output: grass run {words}"),
    ("ts tsp", "to list jobs: grass show; to add a job: grass enqueue {words}"),
    ("service systemd enable", "to start the daemon at boot: grass install-service"),
    (
        "host node worker ssh remote",
        "`grass join` on a machine makes it a worker; to use a machine over ssh: grass machine {words}",
    ),
    ("array", "to enqueue one command with many values: grass sweep --help"),
)
#: Commands that do not exist yet, and what to use until then.
_ANSWERS_FOR_NOW = (("scale suggest", "for now there is nothing like it; `grass help` lists the commands"),)


def _by_word(answers: tuple[tuple[str, str], ...], beginning: str) -> dict[str, str]:
    return {word: f"{beginning}; {answer}" for words, answer in answers for word in words.split()}


#: The answer to each word that is not understood.
ADVICE = _by_word(_ANSWERS, "is not a command") | _by_word(_ANSWERS_FOR_NOW, "is not a command yet")

#: A misspelt word is never taken for one of these.
HARMFUL = frozenset({"stop", "restart", "remove", "delete-queue", "clean", "kill"})

#: What a command about the daemon does, and what to type for a job.
_ABOUT_DAEMON = {
    "stop": ("ends the daemon", "to end a job: grass kill"),
    "restart": ("restarts the daemon", "to submit a job again: grass rerun"),
    "start": ("starts the daemon", "to let a held job start: grass release"),
}

WORDS_SHOWN = 60


def in_our_words(name: str, words: list[str]) -> list[str] | None:
    """Return the command line that a command line of another tool means; None if it has no meaning here."""
    for option, meant in ((option, meant) for (tool, option), meant in UNDERSTOOD_WITH.items() if tool == name):
        if option in words:
            return [*meant, *(word for word in words if word != option)]
    return [*UNDERSTOOD[name], *words] if name in UNDERSTOOD else None


def advice(name: str, words: list[str]) -> str | None:
    """Return what to type instead of a word of another tool; None if the word is not known."""
    answer = ADVICE.get(name)
    return None if answer is None else f"'{name}' {answer.format(words=as_typed(words))}".rstrip()


def advice_about_daemon(name: str, words: list[str]) -> str | None:
    """Return what to type instead of `grass stop JOB`; None if no job is named."""
    if name not in _ABOUT_DAEMON or not words or words[0].startswith("-"):
        return None
    does, instead = _ABOUT_DAEMON[name]
    return f"`grass {name}` {does} and takes no job; {instead} {as_typed(words)}"


def as_typed(words: list[str]) -> str:
    """Return words as they are typed in a shell; `...` instead of many."""
    text = shlex.join(words)
    return text if len(text) <= WORDS_SHOWN else "..."
