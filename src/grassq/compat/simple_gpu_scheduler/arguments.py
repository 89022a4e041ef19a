"""The arguments of simple_gpu_scheduler, and its help text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from grassq.core.syntax.slots import slot_names
from grassq.errors import BadInput

PROGRAM = "simple_gpu_scheduler"

ABOUT = """\
Read one command per line from stdin and run each command as soon as one of the GPUs is free.

  simple_gpu_scheduler --gpus 0 1 2 < gpu_commands.txt
  tail -f -n 0 gpu.queue | simple_gpu_scheduler --gpus 0,1,2
"""

MORE = """\
which GPUs:
  --gpus 0 1 2     three GPUs; --gpus 0,1,2 and --gpus 0-2 are the same
  --gpus 0,1 2     each of several words is one slot: here a pair of GPUs and a single GPU
  --gpus 0,0,1     two commands at a time on GPU 0

commands:
  $SHELL runs each command in this directory, with CUDA_VISIBLE_DEVICES set and an empty stdin. The output is printed in
  whole lines and kept: `grass show` lists the jobs, `grass log ID` prints the output of one job. Blank lines and lines
  that start with # are skipped.

commands of several lines:
  A line that ends in a backslash continues on the next line. A line that is only <<WORD begins a block, and a line that
  is only WORD ends the block; the lines between them are one script for the shell:

    <<END
    cd data
    python train.py
    END

signals:
  SIGINT (ctrl-C), SIGTERM or SIGHUP: no more commands start, running commands finish, and commands that were not
  started are printed on stderr. A second ctrl-C ends the running commands, a third ctrl-C leaves at once. Repeated
  SIGTERM and SIGHUP change nothing; `grass kill queue:NAME` ends the running commands.
  If the scheduler or the daemon is killed, the commands keep running; the next simple_gpu_scheduler reports
  their results.

exit code:
  0 all succeeded, 1 a command failed, 2 invalid arguments or input, 4 no daemon answers, 5 refused,
  129, 130 or 143 after SIGHUP, SIGINT or SIGTERM
"""


class Arguments(NamedTuple):
    """The arguments of one call."""

    #: The names of the slots.
    slots: list[str]
    always_zero: bool


def read(argv: Sequence[str]) -> Arguments:
    """Read the arguments; if they are invalid, print the usage and exit with code 2."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=ABOUT, epilog=MORE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", metavar="ID", nargs="+", required=True, help="the GPUs that commands may use")
    parser.add_argument(
        "--jobs-per-gpu",
        "--jobs_per_gpu",
        metavar="N",
        type=int,
        default=1,
        help="commands at a time on each GPU (default: 1)",
    )
    parser.add_argument(
        "--always-zero", action="store_true", help="exit with 0 even if commands failed, as the original does"
    )
    typed = parser.parse_args(argv)
    if typed.jobs_per_gpu < 1:
        parser.error(f"--jobs-per-gpu takes 1 or more, not {typed.jobs_per_gpu}")
    try:
        slots = slot_names(typed.gpus, typed.jobs_per_gpu)
    except BadInput as error:
        parser.error(f"--gpus: {error}")
    return Arguments(slots, typed.always_zero)
