"""Links Slurm's plain names to the commands of Grass."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

#: The commands, by the names that Slurm has for them; Grass has them with `grass-` before the name.
NAMES = ("sbatch", "squeue", "scancel", "sinfo", "srun", "sacct", "scontrol")
#: In the home: jobs have this folder in front of PATH, so that a script finds srun.
FOLDER = "slurm-bin"


def commands_folder() -> Path:
    """Return the folder that has `grass-sbatch` and the others."""
    beside = Path(sys.argv[0]).resolve().parent
    return beside if (beside / "grass-srun").exists() else Path(sysconfig.get_path("scripts"))


def link(folder: Path, programs: Path) -> list[str]:
    """Link the plain names; return the names that are taken by other files, which stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    for name in NAMES:
        place, target = folder / name, programs / f"grass-{name}"
        if place.is_symlink() and place.readlink() == target:
            continue
        if place.is_symlink() and place.readlink().name == target.name:
            place.unlink()  # of another installation of Grass
        try:
            place.symlink_to(target)
        except FileExistsError:
            if not (place.is_symlink() and place.readlink() == target):
                taken.append(name)
    return taken


def job_programs(home: str) -> str | None:
    """Return the folder of plain names that jobs get; None if it cannot be made."""
    folder = Path(home) / FOLDER
    try:
        link(folder, commands_folder())
    except OSError:
        return None
    return str(folder)
