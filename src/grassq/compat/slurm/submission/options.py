"""The options of sbatch and srun: one table, and how words are read by it, as getopt_long reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from grassq.core.names import shown
from grassq.errors import BadInput

#: The most words that are read, on the command line or in one line of a script.
WORDS_MAX = 10_000


class SlurmOption(NamedTuple):
    """One option of sbatch, srun or both."""

    name: str
    short: str = ""
    takes: Literal["value", "flag", "maybe"] = "value"
    #: What becomes of it: it acts, it changes nothing here, or it changes nothing and a line says why.
    fate: Literal["acts", "silent", "noted"] = "acts"
    why: str = ""
    #: The variable that sets it for sbatch.
    variable: str = ""


def _acts(
    name: str, short: str = "", takes: Literal["value", "flag", "maybe"] = "value", variable: str = ""
) -> SlurmOption:
    return SlurmOption(name, short, takes, variable=variable)


def _noted(name: str, why: str, short: str = "", takes: Literal["value", "flag", "maybe"] = "value") -> SlurmOption:
    return SlurmOption(name, short, takes, "noted", why)


def _silent(takes: Literal["value", "flag", "maybe"], *names: str) -> list[SlurmOption]:
    pairs = [name.partition("/") for name in names]
    return [SlurmOption(name, short, takes, "silent") for name, _, short in pairs]


_NO_MAIL = "no mail is sent; `grass enqueue --notify` and notify rules tell when a job ends"
_NO_CLUSTER = "there is one cluster"


def described(acting: str, silent: str = "") -> tuple[SlurmOption, ...]:
    """Return options from words such as `jobs/j=`: a name, its letter, and `=` or `?` if it takes a value or may.

    All commands have help, usage and version.
    """
    takes: dict[str, Literal["value", "flag", "maybe"]] = {"=": "value", "?": "maybe"}
    every = [(word, False) for word in (acting + " usage help version/V").split()] + [
        (word, True) for word in silent.split()
    ]
    found = []
    for word, is_silent in every:
        name, _, letter = word.rstrip("=?").partition("/")
        found.append(SlurmOption(name, letter, takes.get(word[-1], "flag"), "silent" if is_silent else "acts"))
    return tuple(found)


#: Options that sbatch and srun share.
SHARED = (
    _acts("account", "A", variable="SBATCH_ACCOUNT"),
    _acts("begin", "b"),
    _acts("chdir", "D"),
    _acts("cpus-per-gpu", variable="SBATCH_CPUS_PER_GPU"),
    _acts("cpus-per-task", "c"),
    _acts("dependency", "d"),
    _acts("error", "e", variable="SBATCH_ERROR"),
    _acts("export", variable="SBATCH_EXPORT"),
    _acts("gpus", "G", variable="SBATCH_GPUS"),
    _acts("gpus-per-node", variable="SBATCH_GPUS_PER_NODE"),
    _acts("gpus-per-task", variable="SBATCH_GPUS_PER_TASK"),
    _acts("gres", variable="SBATCH_GRES"),
    _acts("help", "h", "flag"),
    _acts("hold", "H", "flag"),
    _acts("input", "i", variable="SBATCH_INPUT"),
    _acts("job-name", "J", variable="SBATCH_JOB_NAME"),
    _acts("mem", variable="SBATCH_MEM_PER_NODE"),
    _acts("mem-per-cpu", variable="SBATCH_MEM_PER_CPU"),
    _acts("mem-per-gpu", variable="SBATCH_MEM_PER_GPU"),
    _acts("nice", "", "maybe"),
    _acts("nodelist", "w"),
    _acts("nodes", "N"),
    _acts("ntasks", "n"),
    _acts("ntasks-per-gpu"),
    _acts("ntasks-per-node"),
    _acts("open-mode", variable="SBATCH_OPEN_MODE"),
    _acts("output", "o", variable="SBATCH_OUTPUT"),
    _acts("partition", "p", variable="SBATCH_PARTITION"),
    _acts("priority"),
    _acts("quiet", "Q", "flag"),
    _acts("signal", variable="SBATCH_SIGNAL"),
    _acts("time", "t", variable="SBATCH_TIMELIMIT"),
    _acts("usage", "", "flag"),
    _acts("version", "V", "flag"),
    _noted("clusters", _NO_CLUSTER, "M"),
    _noted(
        "constraint", "nodes have no features here; a label of a worker is asked for by `grass enqueue --label`", "C"
    ),
    _noted("exclude", "no worker is left out; -w names the one to use", "x"),
    _noted("exclusive", "the job shares its machine; ask for all GPUs or CPUs instead", takes="maybe"),
    _noted("licenses", "there are no licenses; a resource of a queue does the same: --gres=NAME:1", "L"),
    _noted("mail-type", _NO_MAIL),
    _noted("mail-user", _NO_MAIL),
    _noted("mcs-label", "there are no labels of this kind"),
    _noted("qos", "there is no quality of service; a queue has its own limits", "q"),
    _noted("reservation", "there are no reservations"),
    _noted("time-min", "the job keeps its --time"),
    _noted("tmp", "no space in /tmp is kept; `disk` is a resource: --gres=disk:SIZE"),
    *_silent("value", "acctg-freq", "bb", "bbf", "comment", "cores-per-socket", "core-spec/S", "cpu-freq", "deadline"),
    *_silent("value", "delay-boot", "distribution/m", "extra-node-info/B", "gid", "gpu-bind", "gpu-freq", "hint"),
    *_silent("value", "gres-flags", "mem-bind", "mincpus", "network", "ntasks-per-core", "ntasks-per-socket", "power"),
    *_silent("value", "prefer", "profile", "sockets-per-node", "switches", "thread-spec", "threads-per-core", "uid"),
    *_silent("value", "wckey", "cpu-bind", "container"),
    *_silent("flag", "contiguous", "oversubscribe/s", "overcommit/O", "reboot", "spread-job", "use-min-nodes"),
    *_silent("flag", "verbose/v", "parsable-quiet"),
    *_silent("maybe", "propagate"),
)
#: Only sbatch's.
SBATCH = (
    *SHARED,
    _acts("array", "a", variable="SBATCH_ARRAY_INX"),
    _acts("no-requeue", "", "flag", "SBATCH_NO_REQUEUE"),
    _acts("parsable", "", "flag"),
    _acts("requeue", "", "flag", "SBATCH_REQUEUE"),
    _acts("test-only", "", "flag"),
    _acts("dry-run", "", "flag"),
    _acts("wait", "W", "flag", "SBATCH_WAIT"),
    _acts("wrap"),
    _acts("export-file"),
    *_silent("flag", "ignore-pbs"),
    *_silent("value", "batch", "kill-on-invalid-dep"),
    *_silent("maybe", "get-user-env", "no-kill/k"),
)
#: Only srun's.
SRUN = (
    *SHARED,
    _acts("pty", "", "flag"),
    *_silent("flag", "unbuffered/u", "label/l", "overlap", "exact", "preserve-env/E", "disable-status/X", "no-shell"),
    *_silent("flag", "quit-on-interrupt", "multi-prog", "no-allocate/Z", "send-libs"),
    *_silent("value", "mpi", "task-epilog", "task-prolog", "epilog", "prolog", "slurmd-debug", "jobid", "threads/T"),
    *_silent("value", "wait/W", "max-exit-timeout", "accel-bind", "msg-timeout", "relative/r", "export-file"),
    *_silent("maybe", "kill-on-bad-exit/K", "immediate/I", "no-kill/k", "bcast"),
)

#: What was typed: the value of each option by its long name; "" for one without a value.
Typed = dict[str, str]


class Reader:
    """Reads the words of one command."""

    def __init__(self, program: str, options: Sequence[SlurmOption]) -> None:
        self._program = program
        self._options = options
        self._by_name = {option.name: option for option in options}
        self._by_letter = {option.short: option for option in options if option.short}

    def read(self, words: Sequence[str], where: str = "") -> tuple[Typed, list[str]]:
        """Return the options, and the words from the first one on that is no option. `where` names a line."""
        if len(words) > WORDS_MAX:
            raise BadInput(f"more than {WORDS_MAX:,} words{where}")
        typed: Typed = {}
        return typed, self._read(words, typed, where)

    def _read(self, words: Sequence[str], typed: Typed, where: str, *, adds: bool = False) -> list[str]:
        """Read options into `typed` and return the words behind them; with `adds`, -j 1 -j 2 is a list."""
        index = 0
        while index < len(words):
            word = words[index]
            if word == "--":
                return list(words[index + 1 :])
            if not word.startswith("-") or word == "-":
                break
            index += 1
            following = words[index] if index < len(words) else None
            found: Typed = {}
            read = self._long if word[1] == "-" else self._short
            index += read(word, following, found, where)
            for name, value in found.items():
                typed[name] = f"{typed[name]},{value}" if adds and value and typed.get(name) else value
        return list(words[index:])

    def read_mixed(self, words: Sequence[str]) -> tuple[Typed, list[str]]:
        """Return the options and the words of a command that takes options behind its words, too."""
        typed: Typed = {}
        plain: list[str] = []
        rest = list(words)
        while rest:
            left = self._read(rest, typed, "", adds=True)
            plain += left[:1]
            is_end = "--" in rest[: len(rest) - len(left)]
            plain, rest = (plain + left[1:], []) if is_end else (plain, left[1:])
        return typed, plain

    def from_environment(self, env: Mapping[str, str]) -> Typed:
        """Return the options that variables set."""
        found: Typed = {}
        for option in self._options:
            if option.variable in env:
                found[option.name] = "" if option.takes == "flag" else env[option.variable]
        return found

    def listed(self) -> str:
        """Return a line for each option."""
        values = {"value": "=VALUE", "maybe": "[=VALUE]", "flag": ""}
        acting = [option for option in self._options if option.fate == "acts"]
        lines = [
            f"  {f'-{each.short}, ' if each.short else '    '}--{each.name}{values[each.takes]}" for each in acting
        ]
        others = ", ".join(f"--{option.name}" for option in self._options if option.fate != "acts")
        return "\n".join(lines) + (f"\nThese are accepted and change nothing here: {others}\n" if others else "\n")

    def notes(self, typed: Typed) -> list[str]:
        """Return a line for each option that was typed and changes nothing, unless that needs no words."""
        said: dict[str, list[str]] = {}
        for name in typed:
            if self._by_name[name].fate == "noted":
                said.setdefault(self._by_name[name].why, []).append(f"--{name}")
        return [f"{', '.join(names)}: {why}" for why, names in said.items()]

    def _long(self, word: str, following: str | None, typed: Typed, where: str) -> int:
        name, equals, value = word[2:].partition("=")
        option = self._by_name.get(name) or self._abbreviated(name, where)
        if option.takes == "flag":
            if equals:
                raise BadInput(f"option '--{option.name}' doesn't allow an argument{where}")
            typed[option.name] = ""
            return 0
        return self._take(option, f"--{option.name}", value if equals else None, following, typed, where)

    def _abbreviated(self, name: str, where: str) -> SlurmOption:
        """Return the option that begins so, as getopt_long finds it."""
        found = [option for option in self._options if name and option.name.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            meant = ", ".join(f"--{option.name}" for option in found[:8])
            raise BadInput(f"option {shown('--' + name)} is ambiguous{where}; it may mean {meant}")
        raise BadInput(f"unrecognized option {shown('--' + name)}{where}; see {self._program} --help")

    def _short(self, word: str, following: str | None, typed: Typed, where: str) -> int:
        for place, letter in enumerate(word[1:], 2):
            option = self._by_letter.get(letter)
            if option is None:
                raise BadInput(f"invalid option -- {shown(letter)}{where}; see {self._program} --help")
            if option.takes != "flag":
                return self._take(option, f"-{letter}", word[place:] or None, following, typed, where)
            typed[option.name] = ""
        return 0

    def _take(
        self, option: SlurmOption, spelled: str, value: str | None, following: str | None, typed: Typed, where: str
    ) -> int:
        """Note the value of an option; return how many further words it took."""
        if value is not None or option.takes == "maybe":
            typed[option.name] = value or ""
            return 0
        if following is None:
            raise BadInput(f"option '{spelled}' requires an argument{where}")
        typed[option.name] = following
        return 1
