"""slurm-alias: link Slurm's plain names to the commands of Grass."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from grassq import slurm_links
from grassq.cli import render
from grassq.errors import BadInput, Refused
from grassq.home import environment_text

EPILOG = """\
sbatch, squeue, scancel, sinfo, srun, sacct and scontrol are then the commands that are also called grass-sbatch,
grass-squeue and so on. Other files in DIR stay as they are. To undo it, remove the links.
"""


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `slurm-alias`."""
    parser.add_argument("folder", metavar="DIR", help="the folder of the links, which is made if it does not exist")
    parser.add_argument("--force", action="store_true", help="link the names although a Slurm is on PATH")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.set_defaults(run=link)


def link(arguments: argparse.Namespace) -> int:
    """Make the links, unless they would hide a real Slurm."""
    folder = Path(arguments.folder).absolute()
    path = environment_text().get("PATH", "")
    if not arguments.force and (other := _other_slurm(folder, path)) is not None:
        raise Refused(
            f"there is a Slurm on PATH ({other}), which the links would hide; --force makes them all the same"
        )
    try:
        taken = slurm_links.link(folder, slurm_links.commands_folder())
    except OSError as error:
        raise BadInput(f"the links in {folder} cannot be made: {error.strerror}") from None
    if taken:
        raise Refused(
            f"{folder} has files of these names, which stay as they are: {', '.join(taken)}; use another folder"
        )
    render.line(f"linked {', '.join(slurm_links.NAMES)} in {folder}")
    if str(folder) not in path.split(":"):
        render.line(f'now put it on PATH: export PATH="{folder}:$PATH"')
    return 0


def _other_slurm(folder: Path, path: str) -> str | None:
    """Return a program of Slurm that is not ours; None if there is none."""
    others = ":".join(part for part in path.split(":") if part and Path(part).absolute() != folder)
    for name in slurm_links.NAMES:
        found = shutil.which(name, path=others)
        if found is not None and Path(found).resolve().name != f"grass-{name}":
            return found
    return None
