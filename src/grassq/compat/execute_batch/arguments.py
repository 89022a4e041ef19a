"""The arguments of execute_batch and execute_remote, and their help texts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, NoReturn

from grassq.compat.execute_batch.slots import CPU_OVERLOAD, GPU_OVERLOAD, Needs
from grassq.errors import EXIT_USAGE, BadInput

BATCH = "execute_batch"
REMOTE = "execute_remote"
#: The whole current directory, which is sent and brought back unless other paths are named.
EVERYTHING = ("./",)
#: The largest number of an option, so that no sum has a thousand digits.
NUMBER_MAX = 10**12

_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?|\.[0-9]{1,9}")
_YAML = (".yaml", ".yml")

BATCH_ABOUT = """\
Run every line of FILE as a command of its own on machines over ssh, as many at a time as fit on each machine.

  execute_batch example/batch_script.sh --machines example/machine.yaml example/machine2.yaml
"""

BATCH_MORE = """\
machines:
  A machine is a YAML file with username, ip, port and ssh_key_path. It is looked for here and in ~/.local/var, and
  .yaml may be left out. The machine needs sshd and bash. The key needs no passphrase, or an agent that knows it.

results:
  job_results/NAME.out and NAME.err have the output of a job, and job_results/NAME has the files that came back. NAME
  is FILE with _ for /, a dot, and the number of the line. A line whose folder exists is skipped, and no results are
  replaced. A job that was interrupted leaves job_results/NAME.partial, and the next call runs its line again.

commands:
  bash runs each line in the folder of the sent files, with the functions and aliases of ~/.bashrc there. Blank lines
  and lines that start with # are skipped, and count as lines.

signals:
  SIGINT (ctrl-C) or SIGTERM: running jobs end, their files are brought back, and no more jobs start. A second ctrl-C
  leaves at once. SIGHUP, or SIGKILL: all jobs go on; the same call goes on with them and starts none of them twice.

exit code:
  0 all succeeded, 1 a job failed, now or earlier, or a machine cannot be used, 2 invalid arguments or files,
  4 no daemon answers, 5 refused, 129, 130 or 143 after SIGHUP, SIGINT or SIGTERM
"""

REMOTE_ABOUT = """\
Run one command on a machine over ssh, and exit with its exit code.

  execute_remote --machine example/machine.yaml "bash example/local.sh"
"""

REMOTE_MORE = """\
The output of the command is printed here. The files that come back are in job_results/NAME. See execute_batch --help
for machines and results. Exit code: that of the command, 128 and the number of a signal that ended it, 2 invalid
arguments or files, 255 if the machine cannot be used.
"""


class JobWords(NamedTuple):
    """What is typed about one job: by execute_remote, or on a line of a file with --kabuki-commands."""

    command: str
    forward: tuple[str, ...] = EVERYTHING
    backwards: tuple[str, ...] = EVERYTHING
    #: The name of the job; None if it is not given.
    name: str | None = None


class BatchArguments(NamedTuple):
    """The arguments of one call of execute_batch."""

    file: str
    machines: tuple[str, ...]
    forward: tuple[str, ...]
    backwards: tuple[str, ...]
    needs: Needs
    is_verbose: bool = False
    is_dry: bool = False
    is_kabuki: bool = False
    always_zero: bool = False
    reruns_failed: bool = False
    skips_unreachable: bool = False
    accepts_key: bool = False
    only_changed: bool = False


class RemoteArguments(NamedTuple):
    """The arguments of one call of execute_remote."""

    machine: str
    job: JobWords
    is_verbose: bool = False
    accepts_key: bool = False


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


class _LineParser(argparse.ArgumentParser):
    """A parser of a line of a file, whose errors the caller prints."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message)


def read_batch(argv: Sequence[str]) -> BatchArguments:
    """Read the arguments of execute_batch; if they are invalid, print one line and exit with code 2."""
    parser = _parser(_Parser, BATCH, BATCH_ABOUT, BATCH_MORE)
    parser.add_argument("file", metavar="FILE", nargs="?", help="a command on each line")
    parser.add_argument("--machines", metavar="M", nargs="+", default=[], help="the machines: YAML files")
    _add_copies(parser)
    _add_needs(parser)
    parser.add_argument("--verbose", action="store_true", help="say which job of Grass each line is, and where it runs")
    parser.add_argument("--dry-run", action="store_true", help="ask the machines, print every command, start nothing")
    parser.add_argument("--job-name", metavar="NAME", help="has no effect, as in ml-scheduler")
    parser.add_argument(
        "--kabuki-commands",
        action="store_true",
        help="each line has its own --copy-forward, --copy-backwards and --job-name, as after execute_remote",
    )
    parser.add_argument("--only-changed", action="store_true", help="bring no files back that are as they were sent")
    parser.add_argument("--rerun-failed", action="store_true", help="run lines again whose job failed")
    parser.add_argument("--skip-unreachable", action="store_true", help="go on without machines that do not answer")
    _add_key(parser)
    parser.add_argument("--always-zero", action="store_true", help="exit with 0 even if jobs failed, as ml-scheduler")
    typed = parser.parse_args(argv)
    _check_file(parser, typed.file, typed.machines)
    return BatchArguments(
        typed.file,
        tuple(dict.fromkeys(typed.machines)),
        tuple(typed.copy_forward),
        tuple(typed.copy_backwards),
        _needs(typed),
        is_verbose=typed.verbose,
        is_dry=typed.dry_run,
        is_kabuki=typed.kabuki_commands,
        always_zero=typed.always_zero,
        reruns_failed=typed.rerun_failed,
        skips_unreachable=typed.skip_unreachable,
        accepts_key=typed.accept_key,
        only_changed=typed.only_changed,
    )


def read_remote(argv: Sequence[str]) -> RemoteArguments:
    """Read the arguments of execute_remote; if they are invalid, print one line and exit with code 2."""
    parser = _parser(_Parser, REMOTE, REMOTE_ABOUT, REMOTE_MORE)
    parser.add_argument("--machine", metavar="M", required=True, help="the machine: a YAML file")
    _add_job(parser)
    parser.add_argument("--verbose", action="store_true", help="say which job of Grass it is")
    _add_key(parser)
    typed = parser.parse_args(argv)
    return RemoteArguments(typed.machine, _job(typed), typed.verbose, typed.accept_key)


def read_line(words: Sequence[str]) -> JobWords:
    """Read the words of a line of a file with --kabuki-commands; raise BadInput if they are invalid."""
    parser = _parser(_LineParser, REMOTE, "", "", add_help=False)
    _add_job(parser)
    return _job(parser.parse_args(words))


def _parser(
    kind: type[argparse.ArgumentParser], program: str, about: str, more: str, *, add_help: bool = True
) -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    return kind(
        prog=program, description=about, epilog=more, formatter_class=raw, allow_abbrev=False, add_help=add_help
    )


def _add_copies(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--copy-forward",
        "--copy-forwards",
        metavar="PATH",
        nargs="+",
        default=EVERYTHING,
        help="files and folders to send (default: ./, without .git and job_results)",
    )
    parser.add_argument(
        "--copy-backwards",
        "--copy-backward",
        metavar="PATH",
        nargs="+",
        default=EVERYTHING,
        help="files and folders to bring back (default: ./)",
    )


def _add_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="a line for bash")
    _add_copies(parser)
    parser.add_argument("--job-name", metavar="NAME", help="the name of the results (default: 24 random hex digits)")


def _add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept-key", action="store_true", help="accept the host keys of machines seen for the first time"
    )


def _add_needs(parser: argparse.ArgumentParser) -> None:
    defaults = Needs()
    cores, memory, gpu_memory = int(defaults.cpus), int(defaults.memory_mib), int(defaults.gpu_memory_mib)
    numbers: list[tuple[str, str, Fraction, str]] = [
        ("--num-cpus", "CORES", defaults.cpus, f"cores that a job needs (default: {cores})"),
        ("--memory-required", "MB", defaults.memory_mib, f"memory that a job needs (default: {memory})"),
        ("--gpu-memory-required", "MB", defaults.gpu_memory_mib, f"memory of its GPU (default: {gpu_memory})"),
        ("--gpu-utilization", "SHARE", defaults.gpu_utilisation, "share of its GPU that a job needs (default: 0.75)"),
        ("--cpu-overload", "CORES", defaults.cpu_overload, f"cores beyond the free ones (default: {CPU_OVERLOAD})"),
        (
            "--gpu-overload",
            "SHARE",
            defaults.gpu_overload,
            f"how far all jobs together may use a GPU (default: {float(GPU_OVERLOAD):g})",
        ),
    ]
    for option, value, default, text in numbers:
        kind = _whole if value == "MB" else _decimal
        parser.add_argument(option, metavar=value, type=kind, default=default, help=text)
    parser.add_argument("--reserve", action="store_true", help="one job at a time on each machine")
    parser.add_argument("--no-reserve-gpu", action="store_true", help="several jobs may share a GPU")
    parser.add_argument("--no-gpu-required", action="store_true", help="jobs need no GPU")


def _needs(typed: argparse.Namespace) -> Needs:
    return Needs(
        typed.num_cpus,
        typed.memory_required,
        typed.gpu_memory_required,
        typed.gpu_utilization,
        reserves_machine=typed.reserve,
        reserves_gpu=not typed.no_reserve_gpu,
        needs_gpu=not typed.no_gpu_required,
        cpu_overload=typed.cpu_overload,
        gpu_overload=typed.gpu_overload,
    )


def _job(typed: argparse.Namespace) -> JobWords:
    if typed.command is None or not typed.command.strip():
        raise BadInput("COMMAND is missing: write it before --copy-forward and --copy-backwards, or after `--`")
    if typed.job_name is not None and (typed.job_name.startswith(".") or "/" in typed.job_name or not typed.job_name):
        raise BadInput(f"--job-name {typed.job_name!r} cannot be the name of a folder in job_results")
    return JobWords(typed.command, tuple(typed.copy_forward), tuple(typed.copy_backwards), typed.job_name)


def _check_file(parser: argparse.ArgumentParser, file: str | None, machines: Sequence[str]) -> None:
    if file is None and machines and not machines[-1].endswith(_YAML) and Path(machines[-1]).is_file():
        parser.error(f"FILE is missing: --machines has taken {machines[-1]} as a machine; write FILE first")
    if file is None:
        parser.error("FILE is missing: the file with a command on each line")
    if not machines:
        parser.error("--machines is missing: the YAML files of the machines")


def _whole(text: str) -> Fraction:
    if not text.isascii() or not text.isdigit() or int(text[:20]) > NUMBER_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of megabytes, such as 7000")
    return Fraction(int(text))


def _decimal(text: str) -> Fraction:
    if not _DECIMAL.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up, such as 8 or 0.5")
    return Fraction(text)
