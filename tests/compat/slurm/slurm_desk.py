"""A user's Grass with Slurm's plain names on PATH."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.world import BIN, Done, Grass, Word

from grassq import slurm_links


class SlurmDesk(Grass):
    """Commands of Slurm typed in `cwd`, answered by the daemon of `home`."""

    def __init__(self, home: Path, cwd: Path) -> None:
        super().__init__(home, cwd)
        names = home.parent / "names"
        slurm_links.link(names, BIN)
        kept = {name: value for name, value in self.env.items() if not name.startswith(("SLURM", "SBATCH"))}
        self.env = {**kept, "PATH": f"{names}:{self.env['PATH']}", "PYTHONWARNINGS": "ignore"}

    def typed(self, *words: Word, code: int = 0) -> str:
        """Run a program that must end with this code; what it printed."""
        done = self.program(*words)
        assert done.code == code, done
        return done.out

    def refused(self, *words: Word) -> Done:
        """Run a program that must print nothing on stdout and say why on stderr, in a line of its own."""
        done = self.program(*words)
        assert done.code and done.out == "" and done.err.startswith(f"{words[0]!s}: error: "), done
        return done

    def script(self, name: str, *lines: str, shebang: str = "#!/bin/bash") -> str:
        """Write a script; its name."""
        (self.cwd / name).write_text("\n".join([shebang, *lines, ""]))
        return name

    def text(self, name: str) -> str:
        """What a file in `cwd` holds."""
        return (self.cwd / name).read_text()
