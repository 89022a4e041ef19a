"""The physical limit: programs started from C with nothing around them, compiled on the spot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

COMPILE_S = 60.0

#: COUNT SLOTS PROGRAM ARG...: starts the program so often, so many at a time.
LIMIT_C = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    long to_start = atol(argv[1]), slots = atol(argv[2]), running = 0;
    int failed = 0;
    while (to_start > 0 || running > 0) {
        if (to_start > 0 && running < slots) {
            pid_t child = vfork();
            if (child < 0) return 1;
            if (child == 0) {
                execv(argv[3], argv + 3);
                _exit(127);
            }
            to_start--;
            running++;
        } else {
            int status;
            if (wait(&status) < 0) return 1;
            if (status != 0) failed = 1;
            running--;
        }
    }
    return failed;
}
"""

#: FILE: adds the time of its first instruction, in nanoseconds of the monotonic clock, as one line.
STAMP_C = r"""
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (argc < 2) return 2;
    char line[32];
    int length = snprintf(line, sizeof line, "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    return file < 0 || write(file, line, length) != length;
}
"""

#: The same where there is no compiler: every contestant then waits for the start of Python, too.
STAMP_PYTHON = "import sys, time; now = time.monotonic_ns(); open(sys.argv[1], 'a').write(f'{now}\\n')"


class Programs(NamedTuple):
    """What the measurements start."""

    #: The words before the file's name.
    stamp: tuple[str, ...]
    #: None where nothing can be compiled.
    limit: Path | None
    why_not: str = ""


def compiled(folder: Path) -> Programs:
    """Compile both programs into a folder; without a compiler the stamp is a Python that does the same."""
    python = (sys.executable, "-I", "-S", "-c", STAMP_PYTHON)
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return Programs(python, None, "there is no C compiler")
    try:
        stamp = _compile(compiler, folder, "stamp", STAMP_C)
        return Programs((str(stamp),), _compile(compiler, folder, "limit", LIMIT_C))
    except subprocess.SubprocessError as error:
        return Programs(python, None, f"the C compiler failed: {error}")


def _compile(compiler: str, folder: Path, name: str, text: str) -> Path:
    source = folder / f"{name}.c"
    source.write_text(text)
    subprocess.run([compiler, "-O2", "-o", str(folder / name), str(source)], check=True, timeout=COMPILE_S)
    return folder / name
