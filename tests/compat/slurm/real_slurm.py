"""A real Slurm of one node on loopback: munged, slurmctld and slurmd, each ended by its process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from tests.e2e.world import eventually, free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CONFIG = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
AuthInfo=socket={folder}/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
GresTypes=gpu
NodeName=localhost NodeAddr=127.0.0.1 NodeHostname={host} CPUs=2 RealMemory=100 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why there is no real Slurm here; None if there can be one."""
    if os.geteuid() != 0:
        return "a real Slurm needs root"
    missing = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    return f"no {', '.join(missing)}: tests/needs.sh installs slurm-wlm and munge" if missing else None


class RealSlurm:
    """The daemons of one Slurm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "GRASS"))}
        self.env = {**kept, "PATH": _PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all three, each when the one before answers."""
        folder = self.folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        for name in ("gpu0", "gpu1"):
            (folder / name).touch()
        ports = {"ctld": free_port(), "slurmd": free_port()}
        (folder / "slurm.conf").write_text(
            _CONFIG.format(folder=folder, host=socket.gethostname().split(".")[0], **ports)
        )
        (folder / "gres.conf").write_text(f"NodeName=localhost Name=gpu File={folder}/gpu[0-1]\n")
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        self._run("munged", "-F", "--force", *(f"--{option}={folder / name}" for option, name in files.items()))
        eventually((folder / "munge.sock").exists, "munged")
        self._run("slurmctld", "-D", "-i")
        eventually(lambda: "is UP" in self.typed("scontrol", "ping"), "slurmctld")
        self._run("slurmd", "-D", "-N", "localhost")
        eventually(lambda: "idle" in self.typed("sinfo", "-h", "-o", "%T"), "slurmd")

    def typed(self, *words: str) -> str:
        """What a program of Slurm prints."""
        return subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60, check=False).stdout

    def stop(self) -> None:
        """End all of them, the last one first."""
        if len(self._daemons) == 3:
            self.typed("scancel", "-u", "root")
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(timeout=30)

    def _run(self, *words: str) -> None:
        log = (self.folder / f"{words[0]}.log").open("wb")
        with log:
            program = shutil.which(words[0], path=_PATH) or words[0]
            self._daemons.append(
                subprocess.Popen([program, *words[1:]], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )
