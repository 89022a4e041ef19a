"""Side by side with the original: the same lines on stdin, the same bytes on stdout."""

from __future__ import annotations

import shutil

import pytest
from tests.compat import original
from tests.compat.schedulers import Scheduler

pytestmark = pytest.mark.original

#: Runs until as many run as its first word says, so that each has a gpu of its own; says nothing.
MEET = """
import pathlib, sys, time
folder = pathlib.Path("meeting")
folder.mkdir(exist_ok=True)
(folder / sys.argv[2]).touch()
# One after the other: the ends are in the order of the starts.
while len(list(folder.iterdir())) < int(sys.argv[1]):
    time.sleep(0.02)
"""

CASES = {
    "the README's three gpus": ("python meet.py 3 a\npython meet.py 3 b\npython meet.py 3 c\n", ["0", "1", "2"]),
    "the README's three gpus, by commas": ("python meet.py 3 a\npython meet.py 3 b\npython meet.py 3 c\n", ["0,1,2"]),
    "one gpu, in order": ("".join(f"echo {number} on $CUDA_VISIBLE_DEVICES\n" for number in range(20)), ["5"]),
    "shell syntax": ("echo b > f; echo a >> f\nsort < f | tr a c\n[ -e f ] && echo 'it is' \"there\"\n", ["0"]),
    "blanks around a command": ("  echo a  \necho b\t\n", ["0"]),
    "a last line without end": ("echo a\nprintf b", ["0"]),
    "a gpu that is named": ("echo $CUDA_VISIBLE_DEVICES\n", ["7"]),
}


@pytest.mark.parametrize("case", CASES)
def test_stdout_is_that_of_the_original(scheduler: Scheduler, case: str) -> None:
    """F41, F42, F43, F44, F45, F48."""
    lines, gpus = CASES[case]
    scheduler.file("meet.py", MEET)
    env = {**scheduler.env, "SHELL": "/bin/bash"}
    theirs = original.run(original.SCHEDULER, ["--gpus", *gpus], lines=lines.encode(), cwd=scheduler.cwd, env=env)
    shutil.rmtree(scheduler.cwd / "meeting", ignore_errors=True)
    ours = scheduler.piped(lines, "--gpus", *gpus, env={"SHELL": "/bin/bash"})
    assert theirs.code == 0, theirs
    assert (ours.out, ours.code) == (theirs.out, 0), ours.err


def test_without_gpus_both_end_with_a_usage_line_and_exit_code_2(scheduler: Scheduler) -> None:
    theirs = original.run(original.SCHEDULER, [], cwd=scheduler.cwd, env=scheduler.env)
    ours = scheduler.piped("", *[])
    assert ours.code == theirs.code == 2
    assert ours.err.startswith("usage: ") and "--gpus" in ours.err and "--gpus" in theirs.err
