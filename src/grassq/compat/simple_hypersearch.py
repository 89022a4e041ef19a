"""simple_hypersearch: print a command with parameters as lines, for `simple_gpu_scheduler` or `grass enqueue --stdin`.

The options are those of the original simple_hypersearch. Light to import: the first line is printed at once.
"""

from __future__ import annotations

import os

from grassq.core.syntax import sweep
from grassq.descriptors import write_all
from grassq.errors import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "simple_hypersearch"
#: Bytes and lines per write after the first line; a longer line is one write.
BLOCK_BYTES = 64 << 10
BLOCK_LINES = 1024
SEED_BYTES = 8

HELP = """\
usage: simple_hypersearch PATTERN [-p NAME VALUE...]... [options]

Print PATTERN once for every combination of the values, a line each, with the value for each {NAME} in it.

  simple_hypersearch "python train.py --lr {lr} --seed {seed}" -p lr 0.1 0.01 -p seed 1 2 3
  simple_hypersearch "./run.sh {x}" -p x -1 0 1 --n-samples 2 | simple_gpu_scheduler --gpus 0,1
  simple_hypersearch "./run.sh {x}" -p x -1 0 1 --sampling-mode grid | grass enqueue --gpu=0.5 --stdin

  -p, --parameter NAME VALUE...
                       a parameter and its values; repeat for more. The values end at the next -p or --option; they may
                       begin with a minus sign
  --n-samples N        only N combinations, all different (default: all)
  --sampling-mode {shuffled_grid,grid}
                       random order (default), or the order of nested loops: the last parameter changes fastest
  --seed N             the random order: the same N gives the same order (default: a new order each time)
  --                   the next word is PATTERN, even if it begins with a minus sign or follows -p
  -h, --help           this text

Write {{ and }} for literal braces: ${{HOME}} becomes ${HOME} for the shell. {NAME:>8} sets the width of a value. Values
are inserted unchanged; write the quotes they need into PATTERN.

Exit: 0 printed, 1 stdout cannot be written, 2 invalid arguments, 141 the reader of stdout has gone.
"""


def main(argv: list[str]) -> int:
    """Print the lines of a search and return the exit code."""
    try:
        typed = sweep.read(argv, _unknown)
        if typed.help:
            return _print(iter([HELP.removesuffix("\n")]))
        search = typed.search()
        for note in search.notes:
            _say(note)
        return _print(search.lines(typed.order(lambda: int.from_bytes(os.urandom(SEED_BYTES), "big"))))
    except BadInput as error:
        _say(f"{error}; see {NAME} --help")
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _unknown(word: str) -> int:
    raise BadInput(f"unknown option {sweep.shown(word)}")


def _print(lines: Iterator[str]) -> int:
    try:
        write_lines(1, lines)
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except OSError as error:
        _say(f"stdout: {error.strerror}")
        return 1
    return 0


def write_lines(descriptor: int, lines: Iterator[str]) -> None:
    """Write the first line at once and the others in blocks; no line is kept in memory."""
    from itertools import islice

    many = 1
    while block := list(islice(lines, many)):
        block.append("")
        write_all(descriptor, os.fsencode("\n".join(block)))
        many = min(BLOCK_LINES, 1 + BLOCK_BYTES // (1 + len(block[0])))


def _say(message: str) -> None:
    try:
        os.write(2, f"{NAME}: {message}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return
