"""`python -m tests.sim --seed N` plays one history again; `--seeds N` plays many and names the first that fails."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback

from tests.sim.play import Play


def main() -> int:
    """Play what was asked; the exit code says whether every promise held."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="play this one")
    which.add_argument("--seeds", type=int, help="play so many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    seeds = [options.seed] if options.seeds is None else range(options.first, options.first + options.seeds)
    if options.seed is None:
        # Of many histories only the verdict is of interest; one that is played again may tell what went wrong in it.
        logging.disable(logging.CRITICAL)
    steps, begun = 0, time.monotonic()
    for seed in seeds:
        play = Play(seed)
        try:
            play.run()
        except Exception:
            # The top of a program: whatever went wrong, the seed that shows it is what matters.
            traceback.print_exc()
            sys.stderr.write(f"seed {seed} failed at step {play.steps}, {play.now:.3f} s in\n")
            sys.stderr.write(f"play it again:  make sim SEED={seed}\n")
            return 1
        steps += play.steps
    took_s = time.monotonic() - begun
    sys.stdout.write(f"{len(seeds)} histories, {steps} steps, {took_s:.1f} s, {steps / took_s:.0f} steps/s: all held\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
