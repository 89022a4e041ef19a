"""srun: runs one command now; inside of a job it runs the command in the job."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

from grassq.cli.render import write
from grassq.compat.slurm import sbatch
from grassq.compat.slurm.slurm_jobs import by_numbers
from grassq.compat.slurm.submission import values
from grassq.compat.slurm.submission.job_document import Work, check_one
from grassq.compat.slurm.submission.options import SRUN, Reader, Typed
from grassq.core import outcome
from grassq.core.names import shown
from grassq.errors import BadInput, GrassError
from grassq.home import environment
from grassq.net.client import ApiClient

PROGRAM = "srun"
EXIT_NOT_FOUND = 2
_HELP = """\
Usage: srun [OPTIONS...] COMMAND [ARGUMENTS...]
Options, as under Slurm:
"""
#: Descriptors of the standard streams, by the log.
_STREAMS = {"out": 1, "err": 2}


def run(client: ApiClient, argv: list[str]) -> int:
    """Run one call."""
    reader = Reader(PROGRAM, SRUN)
    typed, words = reader.read(argv)
    if sbatch.answered(PROGRAM, typed, _HELP, reader):
        return 0
    if not words:
        raise BadInput("No command given to execute.")
    env = environment()
    if b"SLURM_JOB_ID" in env and env[b"SLURM_JOB_ID"] == env.get(b"GRASS_JOB_ID"):
        return _step(typed, words, env)
    if "pty" in typed:
        raise BadInput("--pty: a job here has no terminal; run the command without srun")
    work = Work(None, [os.fsencode(word) for word in words], Path(words[0]).name)
    sent = sbatch.prepared(client, PROGRAM, typed, work)
    for note in [] if "quiet" in typed else [*reader.notes(typed), *sent.notes]:
        sbatch.say(PROGRAM, f"note: {note}")
    sent = sent._replace(job={**sent.job, "split": True})
    [job] = sbatch.stored(client, sent, "Unable to allocate resources")
    try:
        return _follow(client, job)
    except KeyboardInterrupt:
        client.kill([str(job)])
        sbatch.say(PROGRAM, f"error: job {job} was cancelled")
        return 130


def _follow(client: ApiClient, job: int) -> int:
    """Write what a job writes until it ends; return its exit code."""
    threads = [threading.Thread(target=_copy, args=(client, job, stream), daemon=True) for stream in _STREAMS]
    for thread in threads:
        thread.start()
    sbatch.wait_for(client, [job])
    for thread in threads:
        thread.join()
    [ended] = by_numbers(client, [job])
    code = outcome.exit_code(ended.get("outcome"), ended.get("exit_code"), ended.get("signal"))
    where = f"error: {ended.get('worker') or 'grass'}: task 0:"
    if ended.get("signal") is not None:
        sbatch.say(PROGRAM, f"{where} {signal.strsignal(ended['signal'])}")
    elif ended.get("exit_code"):
        sbatch.say(PROGRAM, f"{where} Exited with exit code {ended['exit_code']}")
    elif code:
        sbatch.say(PROGRAM, f"error: job {job} {ended['state']}: {ended.get('error') or ended.get('outcome')}")
    return code


def _copy(client: ApiClient, job: int, stream: str) -> None:
    try:
        for part in client.follow(job, stream=stream):
            write(part, fd=_STREAMS[stream])
    except (GrassError, OSError):
        return  # the job goes on; its end is waited for elsewhere


def _step(typed: Typed, words: list[str], env: Mapping[bytes, bytes]) -> int:
    """Become the command: the job has its devices, its files and its variables already."""
    check_one(typed)
    passed, exported = values.export(typed.get("export", "ALL"), env)
    slurm = {name: value for name, value in env.items() if name.startswith((b"SLURM", b"GRASS_", b"CUDA_"))}
    kept = dict(passed) if passed is not None else {**slurm, b"PATH": env.get(b"PATH", b"/usr/bin:/bin")}
    node = env.get(b"SLURM_JOB_NODELIST", b"")
    step = b"%d" % _step_number(env)
    kept |= {b"SLURM_STEP_ID": step, b"SLURM_STEPID": step, b"SLURM_STEP_NUM_TASKS": b"1", b"SLURM_STEP_NODELIST": node}
    kept |= dict(exported)
    if "chdir" in typed:
        os.chdir(typed["chdir"])
    _open_files(typed, env)
    path = os.fsdecode(kept.get(b"PATH", b""))
    program = shutil.which(words[0], path=path)
    if program is None:
        sbatch.say(PROGRAM, f"error: execve(): {words[0]}: No such file or directory")
        return EXIT_NOT_FOUND
    for number in signal.valid_signals():
        # A task begins with the usual signals; Python ignores two of them, and a script may ignore others.
        if number not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(number) in (
            signal.SIG_IGN,
            signal.default_int_handler,
        ):
            signal.signal(number, signal.SIG_DFL)
    os.execve(os.fsencode(program), [os.fsencode(word) for word in words], kept)


def _step_number(env: Mapping[bytes, bytes]) -> int:
    """Return how many steps of the job came before: each adds a byte to a file, and learns where."""
    folder = env.get(b"GRASS_RUN_DIR")
    if folder is None:
        return 0
    try:
        steps = os.open(folder + b"/slurm_steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return 0
    try:
        os.write(steps, b".")
        return os.lseek(steps, 0, os.SEEK_CUR) - 1
    finally:
        os.close(steps)


def _open_files(typed: Typed, env: Mapping[bytes, bytes]) -> None:
    """Open the files of --input, --output and --error in place of the standard streams."""
    is_appended = typed.get("open-mode", "truncate").lower().startswith("a")
    how = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if is_appended else os.O_TRUNC)
    if named := typed.get("input"):
        _open(_file_name(named, env), os.O_RDONLY, 0)
    output, error = (_file_name(typed[name], env) if typed.get(name) else None for name in ("output", "error"))
    if output is not None:
        _open(output, how, 1)
        if error is None or error == output:
            os.dup2(1, 2)
    if error is not None and error != output:
        _open(error, how, 2)


def _open(path: str, how: int, place: int) -> None:
    try:
        opened = os.open(path, how, 0o666)
    except OSError as error:
        raise BadInput(f"Could not open file {shown(path)}: {error.strerror}") from None
    os.dup2(opened, place)
    if opened != place:
        os.close(opened)


def _file_name(pattern: str, env: Mapping[bytes, bytes]) -> str:
    """Return the name of a file of a step; --output=none drops the output."""
    if pattern.lower() == "none":
        return os.devnull
    text = {name: os.fsdecode(value) for name, value in env.items()}
    job = text.get(b"SLURM_JOB_ID", "0")
    codes = {
        "%": "%",
        "j": job,
        "J": f"{job}.0",
        "A": text.get(b"SLURM_ARRAY_JOB_ID", job),
        "a": text.get(b"SLURM_ARRAY_TASK_ID", "4294967294"),
        "N": text.get(b"SLURM_JOB_NODELIST", "").partition(".")[0],
        "x": text.get(b"SLURM_JOB_NAME", ""),
        "u": sbatch.user_name(),
        **dict.fromkeys("nts", "0"),
    }
    parts = pattern.split("%")
    found = [parts[0]]
    index = 1
    while index < len(parts):
        if not parts[index]:  # two signs
            found.append("%" + (parts[index + 1] if index + 1 < len(parts) else ""))
            index += 2
            continue
        code, rest = parts[index][0], parts[index][1:]
        found.append(codes[code] + rest if code in codes else "%" + parts[index])
        index += 1
    return "".join(found)
