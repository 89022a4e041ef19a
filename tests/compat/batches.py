"""Calls of execute_batch and execute_remote against machines with a real sshd."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.docs.blocks import ROOT
from tests.e2e.world import BIN, DEADLINE_S, Done, Grass, eventually
from tests.machines.fake_tools import put_nvidia
from tests.machines.site import USER, MachineSite, SshMachine

EXAMPLE = ROOT / "examples" / "ml-scheduler"
#: The programs in ~/bin there come first, as with a driver's tools in an unusual place.
BASHRC = 'PATH="$HOME/bin:$PATH"\n'
#: So little memory that every GPU of the tests has it.
LITTLE = "--memory-required=10"
#: Counts its starts, then waits for a file there, which the test makes.
GATED = "echo begun; echo x >> ~/starts.{0}; echo part > made; until [ -e ~/open.{0} ]; do sleep 0.05; done; echo done"


def card(index: int, *, used: int = 0, total_mib: int = 6000, used_mib: int = 0) -> str:
    """A line of nvidia-smi about one GPU, with its use in percent."""
    return f"{index}, GPU-{index}, NVIDIA X, {total_mib}, {used_mib}, {used}, Disabled, Default"


def gpu_machine(site: MachineSite, name: str, *cards: str, python: bool = True) -> SshMachine:
    """Start a machine with these GPUs."""
    machine = site.machine(name, python=python, files={".bashrc": BASHRC})
    put_nvidia(machine.home / "bin", *cards)
    return machine


class Desk(Grass):
    """A user's directory with batches and machine files, and the Grass under it."""

    def __init__(self, home: Path, cwd: Path, site: MachineSite) -> None:
        super().__init__(home, cwd)
        self.site = site
        self.env |= {"GRASS_SSH": str(site.ssh), "HOME": str(cwd)}
        self.env.pop("SSH_AUTH_SOCK", None)

    def yaml(self, name: str, machine: SshMachine | None = None, **more: object) -> str:
        """Write a machine file; the word for it."""
        where = {"ip": machine.address, "port": machine.port} if machine is not None else {}
        values = {"username": USER, "ssh_key_path": self.site.key, **where, **more}
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
        return name

    def batch(self, *lines: str, name: str = "batch.sh") -> str:
        """Write a batch; the word for it."""
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line + "\n" for line in lines))
        return name

    def example(self, **machines: SshMachine) -> None:
        """Copy the example under its name in the README, with these machines in its files."""
        shutil.copytree(EXAMPLE, self.cwd / "example")
        for name, machine in machines.items():
            self.yaml(f"example/{name}.yaml", machine)

    def execute(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """Run execute_batch to its end."""
        return self.program(BIN / "execute_batch", *words, env=env, timeout_s=100.0)

    def refused(self, code: int, *words: str) -> str:
        """Run an execute_batch that must end with one line and print nothing else; that line."""
        done = self.execute(*words)
        assert (done.code, done.out) == (code, ""), done
        assert done.err.count("\n") == 1 and done.err.startswith("execute_batch: "), done
        return done.err

    def typed(self, line: str) -> Done:
        """Type a line into bash."""
        return self.program("bash", "-c", line, timeout_s=100.0)

    def call(self, *words: str, program: str = "execute_batch") -> BatchProcess:
        """Start a call and go on."""
        number = len(self.foreground)
        out, err = self.home.parent / f"out.{number}", self.home.parent / f"err.{number}"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [os.fsencode(BIN / program), *map(os.fsencode, words)],
                cwd=self.cwd,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
        self.foreground.append(process)
        return BatchProcess(process, out, err)

    @property
    def results(self) -> Path:
        """The folder of the results."""
        return self.cwd / "job_results"

    def out(self, name: str) -> str:
        """What a job wrote to stdout."""
        return (self.results / f"{name}.out").read_text()

    def listed(self) -> list[str]:
        """The names in the folder of the results."""
        return sorted(path.name for path in self.results.iterdir())


class BatchProcess:
    """A call that goes on."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self._out, self._err = out, err

    def out(self) -> str:
        """What the call has printed so far."""
        return self._out.read_text(errors="surrogateescape")

    def err(self) -> str:
        """What the call has said so far."""
        return self._err.read_text(errors="surrogateescape")

    def until(self, text: str) -> None:
        """Wait until the call has printed or said that."""
        eventually(lambda: text in self.out() + self.err(), f"{text!r} in {self.out()!r} {self.err()!r}", 60.0)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the call."""
        self.process.send_signal(number)

    def end(self) -> Done:
        """Wait until the call has ended."""
        code = self.process.wait(2 * DEADLINE_S)
        assert "Traceback" not in self.err(), self.err()
        return Done(code, self.out(), self.err())


def events(out: str) -> list[tuple[str, str]]:
    """What happened to which job, in the order printed."""
    return re.findall(r"^(started|finished|failed): ([^;]+);", out, re.MULTILINE)


def gated(desk: Desk, two: SshMachine, *names: str) -> BatchProcess:
    """Start a batch of jobs that wait for files there."""
    desk.yaml("m.yaml", two)
    for name in names:
        for kind in ("starts", "open"):
            (two.home / f"{kind}.{name}").unlink(missing_ok=True)
    desk.batch(*(GATED.format(name) for name in names))
    return desk.call("batch.sh", "--machines", "m", LITTLE)


def open_gates(two: SshMachine, *names: str) -> None:
    """Let jobs end."""
    for name in names:
        (two.home / f"open.{name}").touch()


def starts(two: SshMachine, name: str) -> int:
    """How often a job was started."""
    file = two.home / f"starts.{name}"
    return file.read_text().count("x") if file.exists() else 0
