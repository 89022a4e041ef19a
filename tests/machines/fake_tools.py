"""Stand-ins for the vendors' tools on a machine: a folder of scripts for the PATH, each with a say of its own."""

from __future__ import annotations

import os
from pathlib import Path

A100 = "0, GPU-aaa, NVIDIA A100, 40960, 3, 0, Disabled, Default"


def put_tool(folder: Path, name: str, script: str) -> None:
    """Write an executable script of POSIX sh."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def put_nvidia(folder: Path, *cards: str, apps: tuple[str, ...] = (), code: int = 0, words: str = "") -> None:
    """Write an nvidia-smi that knows these cards and processes."""
    listed, running = "\n".join(cards), "\n".join(apps)
    put_tool(
        folder,
        "nvidia-smi",
        f"""case $1 in
--query-gpu=*) cat <<'X'
{listed}
X
;;
--query-compute-apps=*) cat <<'X'
{running}
X
;;
esac
printf '%s' '{words}' >&2
exit {code}""",
    )


def path_with(folder: Path) -> dict[str, str]:
    """Return the variables of a machine whose PATH begins with a folder."""
    return {"PATH": f"{folder}:{os.defpath}"}
