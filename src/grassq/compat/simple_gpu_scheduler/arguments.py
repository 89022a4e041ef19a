"""What may be typed after simple_gpu_scheduler."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from grassq.core.syntax.slots import slot_names
from grassq.errors import BadInput

PROGRAM = "simple_gpu_scheduler"

ABOUT = """\
Reads a command per line from stdin and runs each on one of the GPUs, as soon as one is free.

  simple_gpu_scheduler --gpus 0 1 2 < gpu_commands.txt
  tail -f -n 0 gpu.queue | simple_gpu_scheduler --gpus 0,1,2
"""

MORE = """\
which GPUs:
  --gpus 0 1 2     three GPUs; --gpus 0,1,2 is the same, and so is --gpus 0-2
  --gpus 0,1 2     of several words each is one place: here a pair of GPUs and a single one
  --gpus 0,0,1     two commands at a time on GPU 0

commands:
  A command is run by $SHELL with CUDA_VISIBLE_DEVICES set, in this directory, with an empty stdin. Its output is
  passed on in whole lines, and kept: `grass show` lists the jobs, `grass log ID` has what one wrote. Blank lines and
  lines that start with # are skipped.

commands of several lines:
  A line that ends in a backslash goes on in the next one. A line that is only <<WORD begins a block, which a line that
  is only WORD ends; the lines between them are one script of the shell:

    <<END
    cd data
    python train.py
    END

signals:
  SIGINT (ctrl-C), SIGTERM or SIGHUP: no command starts any more, those that run finish, and those that were not
  started are printed on stderr. A second ctrl-C ends the commands that run, a third one leaves at once; SIGTERM and
  SIGHUP mean the same however often they come, and `grass kill queue:NAME` ends what runs.
  If it is killed, or the daemon under it, the commands run on; the next simple_gpu_scheduler tells what became of them.

exit code:
  0 all succeeded, 1 a command failed, 2 wrong usage or input, 4 no daemon answers, 5 refused,
  129, 130 or 143 after SIGHUP, SIGINT or SIGTERM
"""


class Arguments(NamedTuple):
    """What was typed."""

    #: The names of the slots.
    slots: list[str]
    always_zero: bool


def read(argv: Sequence[str]) -> Arguments:
    """Read the words, or leave with the usage and exit code 2."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=ABOUT, epilog=MORE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", metavar="ID", nargs="+", required=True, help="the GPUs that commands may use")
    parser.add_argument(
        "--jobs-per-gpu", "--jobs_per_gpu", metavar="N", type=int, default=1, help="so many at a time on each (1)"
    )
    parser.add_argument(
        "--always-zero", action="store_true", help="exit code 0 even if commands failed, as it used to be"
    )
    typed = parser.parse_args(argv)
    if typed.jobs_per_gpu < 1:
        parser.error(f"--jobs-per-gpu takes 1 or more, not {typed.jobs_per_gpu}")
    try:
        slots = slot_names(typed.gpus, typed.jobs_per_gpu)
    except BadInput as error:
        parser.error(f"--gpus: {error}")
    return Arguments(slots, typed.always_zero)
