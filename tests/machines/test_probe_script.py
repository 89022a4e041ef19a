"""The far side of a probe, in the shells that machines have: what it prints, and that nothing stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.machines.fake_tools import A100, path_with, put_nvidia, put_tool

from grassq.machines.measure import probe
from grassq.machines.measure.gpu_probe import GpuProcess
from grassq.machines.transport import LinkLost, LocalTransport

SHELLS = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh")}


@pytest.fixture(params=SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


class Machine:
    """This computer as another machine: a home, a far home, and tools of its own before those of the system."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.tools = folder / "tools"
        self.shell = SHELLS[shell]
        self.home = folder / "home"
        self.far_home = self.home / ".grass-ssh" / "store"
        self.far_home.mkdir(parents=True)
        # `sh` on the command line is the shell under test.
        put_tool(self.tools, "sh", f'exec {" ".join(SHELLS[shell])} "$@"')
        self.transport = LocalTransport(str(self.home), shell=SHELLS[shell], env=path_with(self.tools))

    def ask(self, *, everything: bool = True, gpus: bool = True) -> probe.MachineProbe:
        return probe.ask(self.transport, os.fsencode(self.far_home), everything=everything, gpus=gpus)

    def left_files(self) -> list[str]:
        return [str(path) for path in self.home.rglob("*") if path not in (self.far_home, self.far_home.parent)]


def test_a_full_report_says_what_the_machine_has(machine: Machine) -> None:
    found = machine.ask()
    assert found.cpus == len(os.sched_getaffinity(0))
    assert found.mem_total_mib > found.mem_free_mib > 0
    assert found.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found.clock is not None and abs(found.clock - time.time()) < 60
    assert len(found.samples) == 2
    assert {"tar", "awk"} <= found.tools
    assert found.python is not None and found.python.startswith("3.")
    assert found.disk is not None and found.disk.free_mib > 0
    assert found.is_writable is True
    assert found.sh.rpartition("/")[2] in SHELLS
    assert found.gpus is not None and found.gpus.gpus == () and found.gpus.fault is None
    assert machine.left_files() == []


def test_a_short_report_leaves_out_what_hardly_changes(machine: Machine) -> None:
    found = machine.ask(everything=False, gpus=False)
    assert found.mem_free_mib > 0 and len(found.samples) == 2
    assert found.gpus is None and found.tools == frozenset()


#: Starts processes that compute, and then its arguments, in a process table of its own.
SPINNING = """
exec env %s unshare --pid --fork --mount-proc sh -c '
    for each in 1 2 3 4; do while :; do :; done & done
    "$@"
' sh "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a process table of its own")
def test_the_work_of_our_own_jobs_is_not_that_of_others(machine: Machine) -> None:
    put_tool(machine.tools, "ours", SPINNING % f"GRASS_RUN_DIR={machine.far_home}/jobs/1/1/files")
    put_tool(machine.tools, "others", SPINNING % "GRASS_RUN_DIR=/elsewhere/jobs/1/1/files")
    used = {}
    for whose in ("ours", "others"):
        transport = LocalTransport(
            str(machine.home), shell=(str(machine.tools / whose), *machine.shell), env=path_with(machine.tools)
        )
        report = probe.ask(transport, os.fsencode(machine.far_home), everything=False, gpus=False)
        used[whose] = report.others_cores
    assert used["ours"] < used["others"] <= os.cpu_count()  # type: ignore[operator]


def test_the_cards_come_from_nvidia_smi_with_their_processes(machine: Machine) -> None:
    put_nvidia(
        machine.tools, A100, "1, GPU-bbb, NVIDIA A100, 40960, 30000, 97, Disabled, Default", apps=("GPU-bbb, 7, 29990",)
    )
    found = machine.ask().gpus
    assert found is not None and found.fault is None
    assert [(gpu.index, gpu.total_mib, gpu.used_mib, gpu.utilisation) for gpu in found.gpus] == [
        (0, 40960, 3, 0),
        (1, 40960, 30000, 97),
    ]
    assert found.gpus[1].processes == (GpuProcess(7, 29990, is_own=False),)
    assert machine.left_files() == []


def test_an_old_driver_that_does_not_know_all_fields_is_asked_for_fewer(machine: Machine) -> None:
    put_tool(
        machine.tools,
        "nvidia-smi",
        'case $1 in *mig.mode*) echo "Field \\"mig.mode.current\\" is not a valid field to query."; exit 2;; '
        "--query-gpu=*) echo 0, GPU-a, Tesla K80, 11441, 0, 0;; esac",
    )
    found = machine.ask().gpus
    assert found is not None and [gpu.name for gpu in found.gpus] == ["Tesla K80"] and found.fault is None


def test_an_nvidia_smi_that_never_ends_is_left_behind(machine: Machine) -> None:
    put_tool(machine.tools, "nvidia-smi", "exec sleep 1000")
    script = probe.script(os.fsencode(machine.far_home), everything=False, gpus=True)
    # The time that a driver's tool has is shortened; nothing else of the script is changed.
    hasty = script.replace(b"far_probe /", b"probe_driver_s=1; far_probe /")
    assert hasty != script
    done = subprocess.run(
        [str(machine.tools / "sh")], input=hasty, capture_output=True, timeout=60, env=path_with(machine.tools)
    )
    found = probe.parse(done.stdout)
    assert found.gpus is not None and found.gpus.fault == "nvidia-smi does not end: the driver hangs"
    assert machine.left_files() == []


def test_a_driver_that_fails_is_told_in_its_own_words(machine: Machine) -> None:
    put_nvidia(
        machine.tools, "", code=9, words="NVIDIA-SMI has failed because it could not communicate with the driver."
    )
    found = machine.ask().gpus
    assert found is not None and found.gpus == ()
    assert found.fault is not None and found.fault.startswith("nvidia-smi ends with code 9: NVIDIA-SMI has failed")


def test_rocm_smi_is_read_although_it_warns_first(machine: Machine) -> None:
    put_tool(
        machine.tools,
        "rocm-smi",
        """echo 'WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status'
echo
echo '{"card0": {"GPU use (%)": "98", "VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)":
"1048576000", "GUID": "4242", "Card Series": "Instinct MI210"}, "system": {"Driver version": "6.7"}}'""",
    )
    found = machine.ask().gpus
    assert found is not None and found.is_amd and found.fault is None
    assert [(gpu.index, gpu.name, gpu.total_mib, gpu.used_mib, gpu.utilisation) for gpu in found.gpus] == [
        (0, "Instinct MI210", 65520, 1000, 98)
    ]


def test_our_own_jobs_are_known_by_their_environment(machine: Machine) -> None:
    ours = {"GRASS_RUN_DIR": f"{machine.far_home}/jobs/1/1/files", "GRASS_GPU": "1", "PATH": os.defpath}
    others = {**ours, "GRASS_RUN_DIR": f"{machine.far_home}-of-another/jobs/1/1/files", "GRASS_GPU": "0"}
    # `cat` reads until its stdin is closed.
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=ours) as own,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=others) as other,
    ):
        put_nvidia(
            machine.tools,
            A100,
            "1, GPU-bbb, NVIDIA A100, 40960, 30000, 97, Disabled, Default",
            apps=(f"GPU-bbb, {own.pid}, 20000", f"GPU-bbb, {other.pid}, 9000"),
        )
        found = machine.ask(everything=False)
        for process in (own, other):
            assert process.stdin is not None
            process.stdin.close()
    assert found.gpus is not None
    assert [gpu.is_own for gpu in found.gpus.gpus] == [False, True]
    assert found.gpus.gpus[1].processes == (GpuProcess(own.pid, 20000, True), GpuProcess(other.pid, 9000, False))


def test_noise_of_the_login_shell_is_dropped(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "dash")
    put_tool(machine.tools, "sh", 'echo "Welcome to grass-probe 1"; exec dash "$@"')
    assert machine.ask(everything=False, gpus=False).cpus >= 1


def test_a_report_without_an_end_is_a_lost_link(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "dash")
    put_tool(machine.tools, "sh", 'echo; echo "grass-probe 1"; echo "cores 4"')
    with pytest.raises(LinkLost):
        machine.ask()


def test_an_endless_report_is_a_lost_link(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "dash")
    put_tool(machine.tools, "sh", 'echo; echo "grass-probe 1"; exec yes "own 17"')
    with pytest.raises(LinkLost):
        machine.ask()


def test_a_report_that_trickles_is_a_lost_link_after_its_time(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "dash")
    put_tool(machine.tools, "sh", 'echo; echo "grass-probe 1"; while echo "own 17"; do sleep 0.02; done')
    with pytest.raises(LinkLost):
        probe.ask(machine.transport, b"/far", within_s=1.0)


def test_the_memory_of_our_own_jobs_is_that_of_their_processes(machine: Machine) -> None:
    ours = {"GRASS_RUN_DIR": f"{machine.far_home}/jobs/1/1/files", "PATH": os.environ["PATH"]}
    size = 64 << 20
    script = f"import sys; held = b'x' * {size}; print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ours) as own:
        assert own.stdin is not None and own.stdout is not None
        own.stdout.readline()
        found = machine.ask(everything=False, gpus=False)
        own.stdin.close()
    assert size >> 20 <= found.own_mib < found.mem_total_mib - found.mem_free_mib + (size >> 20)
