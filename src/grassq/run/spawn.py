"""Start a job's command, and say in a sentence why it did not start."""

from __future__ import annotations

import errno
import os
import signal
import stat

from grassq.run import rundir, which

ERROR_MAX = 1000  # characters of a sentence that goes into the exit record
HOME = "/"  # where launcher and shims are while they start nothing

#: Python ignores these two signals for itself, and a program it starts would inherit that.
_PYTHONS_OWN = (signal.SIGPIPE, signal.SIGXFSZ)
_DUP2 = os.POSIX_SPAWN_DUP2
# Any other reason explains more than "not found in one of the directories".
_NOT_HERE = (errno.ENOENT, errno.ENOTDIR)
_EMPTY = "the command is empty"


def spawn(spec: rundir.RunSpec, path: str, null: int) -> int:
    """Start the command in its own session and return its pid; OSError or ValueError if it cannot be started."""
    out = rundir.open_log(path, "out" if spec.split else "log")
    err = out
    try:
        if spec.split:
            err = rundir.open_log(path, "err")
        if spec.output:
            from grassq.run.output import output_file  # few jobs have one, and none on a machine over ssh

            output_file.place(path, spec, out)
        os.chdir(spec.cwd)
        umask = os.umask(spec.umask)
        try:
            return _start(spec, ((_DUP2, null, 0), (_DUP2, out, 1), (_DUP2, err, 2)))
        finally:
            os.umask(umask)
            os.chdir(HOME)
    finally:
        os.close(out)
        if err != out:
            os.close(err)


def _start(spec: rundir.RunSpec, files: tuple[tuple[int, int, int], ...]) -> int:
    """Start the first of the files the command may mean that can be started."""
    if not spec.argv:
        raise ValueError(_EMPTY)
    # The shim looks the program up, not the daemon: a file system that hangs then hangs only this job's shim.
    places, words = which.to_start(tuple(spec.argv), spec.env, spec.cwd)
    spec.env.pop(b"", None)  # a variable without a name, which a broken parent may pass on, is dropped
    failure: OSError | None = None
    for place in places:
        try:
            # Not `subprocess`: it costs more than the start itself. Every other descriptor of ours closes by itself.
            return os.posix_spawn(
                place, words, spec.env, file_actions=files, setsid=True, setsigmask=(), setsigdef=_PYTHONS_OWN
            )
        except OSError as exc:
            if failure is None or failure.errno in _NOT_HERE:
                failure = exc
    assert failure is not None
    raise failure


def reason(exc: OSError | ValueError, spec: rundir.RunSpec) -> str:
    """Return why the command did not start, as one line for a person."""
    if not spec.argv:
        cause = _EMPTY
    elif isinstance(exc, ValueError):
        cause = f"the command or its environment cannot be passed to a program: {exc}"
    elif isinstance(exc.filename, str):
        cause = f"the log {_show(os.fsencode(exc.filename))} cannot be opened: {exc.strerror}"
    else:
        cause = _cause_in_cwd(spec.cwd) or _cause_in_program(exc, spec)
    return f"cannot start: {cause}"[:ERROR_MAX]


def _cause_in_cwd(cwd: bytes) -> str | None:
    shown = _show(cwd)
    try:
        mode = os.stat(cwd).st_mode
    except OSError as exc:
        if exc.errno == errno.ENOENT:
            return f"the working directory {shown} does not exist"
        return f"the working directory {shown} cannot be entered: {exc.strerror}"
    if not stat.S_ISDIR(mode):
        return f"the working directory {shown} is not a directory"
    if not os.access(cwd, os.X_OK):
        return f"the working directory {shown} may not be entered"
    return None


def _cause_in_program(exc: OSError, spec: rundir.RunSpec) -> str:
    program = spec.argv[0]
    shown = _show(program)
    places = which.places(program, spec.env, spec.cwd)
    found = next((place for place in places if os.path.lexists(place)), None)
    if exc.errno in (errno.ENOENT, errno.ENOTDIR):
        if found is not None:
            return f"the interpreter or loader that {_show(found)} names does not exist"
        if b"/" in program:
            return f"the program {shown} does not exist"
        return f"there is no program {shown} on the job's PATH"
    if exc.errno == errno.EACCES:
        if found is not None and os.path.isdir(found):
            return f"{shown} is a directory, not a program"
        return f"{shown} is not executable; chmod +x it, or name its interpreter first"
    if exc.errno == errno.ENOEXEC:
        return f"{shown} has no #! line and is not a program for this machine; add one, or name its interpreter first"
    if exc.errno == errno.E2BIG:
        return "its arguments and environment together are larger than the system allows"
    return f"{shown}: {exc.strerror}"


def _show(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")
