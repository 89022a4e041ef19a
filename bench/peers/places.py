"""Where peers are, and where they may write."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What bench/needs.sh makes; the variable names another.
FOLDER = ".venv-peers"


def peers_bin() -> Path:
    """The programs of the environment that peers are installed into."""
    return Path(os.environ.get("BENCH_PEERS") or ROOT / FOLDER) / "bin"


def own_env(folder: Path) -> dict[str, str]:
    """The environment of a peer: what it keeps for itself goes into the folder."""
    return {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
