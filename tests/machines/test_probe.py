"""Reading a machine's report: what it has, what is free, and reports that lie."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.messages import Hello
from grassq.core.model import WorkerInfo
from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Device, Devices, Pool
from grassq.core.worker_checks import checked
from grassq.machines.measure.probe import (
    BadProbe,
    MachineProbe,
    capacity_of,
    free_report,
    parse,
    variables_for,
)

BASE = """uptime 120.25
clock 1794906561.%N
boot 0ba9f196-d407-4c20-9f2e-38fe57e47e80
cores 8
stat cpu  100 0 100 800 0 0 0 0 0 0
stat cpu  200 0 200 1400 200 0 0 0 0 0
allowed Cpus_allowed_list:	0-3,7
meminfo MemTotal:       16777216 kB
meminfo MemFree:         1000000 kB
meminfo MemAvailable:   8388608 kB
"""
WORDS = [
    "uptime",
    "clock",
    "boot",
    "cores",
    "stat",
    "allowed",
    "meminfo",
    "group_cpu",
    "group_mem",
    "own",
    "own_kib",
    "own_gpu",
    "asked_gpus",
    "nvidia",
    "nvidia_code",
    "nvidia_app",
    "rocm",
    "rocm_code",
    "amd",
    "amd_code",
    "kfd",
    "user",
    "tool",
    "python",
    "df",
    "writable",
    "linger",
]


def read(text: str) -> MachineProbe:
    return parse(text.encode())


def with_gpus(*lines: str) -> MachineProbe:
    return read("\n".join([BASE, "asked_gpus yes", "nvidia_code 0", *lines]))


def test_a_job_may_use_the_processors_of_its_affinity() -> None:
    found = read(BASE)
    assert (found.cpus, found.cores) == (5, 8)
    assert capacity_of(found) == {"cpu": Pool(5 * ONE), "mem": Pool(16384 * ONE)}


def test_the_quota_of_a_control_group_limits_the_processors() -> None:
    assert read(BASE + "group_cpu max 100000\ngroup_cpu 250000 100000").cpus == 3
    assert read(BASE + "group_cpu -1 100000\ngroup_cpu 0 0").cpus == 5


def test_every_control_group_above_limits_the_memory_and_what_is_free() -> None:
    gib = 1 << 30
    found = read(
        BASE + f"group_mem {4 * gib} {gib} 0\ngroup_mem {6 * gib} {5 * gib} {gib // 2}\ngroup_mem {1 << 62} 5 5"
    )
    assert (found.mem_total_mib, found.mem_free_mib) == (4096, 1536)


def test_free_cores_are_those_without_work_between_two_samples() -> None:
    assert free_report(read(BASE))["free_cores"] == 5.0
    busy = read(BASE.replace("stat cpu  200 0 200 1400 200", "stat cpu  800 0 300 900 0"))
    assert free_report(busy)["free_cores"] == 0.8
    once = read(BASE.replace("stat cpu  100 0 100 800 0 0 0 0 0 0\n", ""))
    assert free_report(once)["free_cores"] == 5.0


def test_the_free_report_has_the_memory_and_use_of_each_card() -> None:
    found = free_report(with_gpus("nvidia 0, GPU-a, NVIDIA A100, 40960, 960, 35, Disabled, Default"))
    assert found == {
        "cpus": 5,
        "free_cores": 5.0,
        "mem_total_mib": 16384,
        "mem_free_mib": 8192,
        "gpu_fault": None,
        "gpus": [{"index": 0, "name": "NVIDIA A100", "mem_total_mib": 40960, "mem_free_mib": 40000, "utilisation": 35}],
    }
    json.dumps(found)


def test_cards_become_devices_by_index_with_their_memory() -> None:
    found = with_gpus(
        "nvidia 1, GPU-b, NVIDIA A100, 40960, 0, 0, Disabled, Default",
        "nvidia 0, GPU-a, NVIDIA GB10, [N/A], [N/A], [Not Supported], [N/A], Default",
        "nvidia 2, GPU-c, NVIDIA A100, 40960, 0, 0, Enabled, Prohibited",
        "nvidia 3, GPU-d, [GPU is lost]",
        "nvidia Unable to determine the device handle for GPU 0000:BA:00.0: Unknown Error",
    )
    assert capacity_of(found)["gpu"] == Devices((Device("0", ONE, 0), Device("1", ONE, 40960 * ONE)))
    assert variables_for(found.gpus).of(b"gpu", b"1") == {
        b"CUDA_VISIBLE_DEVICES": b"1",
        b"CUDA_DEVICE_ORDER": b"PCI_BUS_ID",
    }


def test_cards_of_amd_are_named_by_the_variables_of_rocm() -> None:
    card = {
        "gpu": 0,
        "usage": {"gfx_activity": {"value": 3}},
        "mem_usage": {"total_vram": {"value": 16368, "unit": "MB"}},
    }
    found = read(BASE + f"asked_gpus yes\namd_code 0\namd {json.dumps({'gpu_data': [card]})}")
    assert capacity_of(found)["gpu"] == Devices((Device("0", ONE, 16368 * ONE),))
    assert variables_for(found.gpus).of(b"gpu", b"0") == {b"HIP_VISIBLE_DEVICES": b"0", b"CUDA_VISIBLE_DEVICES": b"0"}
    assert b"CUDA_VISIBLE_DEVICES" in variables_for(found.gpus).hidden


@pytest.mark.parametrize("missing", ["cores 8\n", "meminfo MemTotal:       16777216 kB\n", "uptime 120.25\n"])
def test_a_report_without_processors_memory_or_uptime_cannot_be_used(missing: str) -> None:
    text = BASE.replace(missing, "").replace("allowed Cpus_allowed_list:	0-3,7\n", "")
    with pytest.raises(BadProbe):
        read(text)


def test_impossible_numbers_are_not_believed() -> None:
    found = with_gpus(
        "nvidia 1000000000, GPU-a, x, 1, 1, 1, a, b",
        "nvidia -1, GPU-a, x, 1, 1, 1, a, b",
        "nvidia 0, GPU-a, \x1b[31mred, -5, 99999999999999999999999, 400, a, b",
        "nvidia 0, GPU-a, again, 1, 1, 1, a, b",
        "nvidia ٣, GPU-a, arabic, 1, 1, 1, a, b",
    )
    assert found.gpus is not None
    (gpu,) = found.gpus.gpus
    assert (gpu.name, gpu.total_mib, gpu.used_mib, gpu.utilisation) == ("\\x1b[31mred", None, None, None)


values = st.one_of(
    st.text(max_size=60),
    st.from_regex(r"[-+]?[0-9]{1,25}(\.[0-9]+)?", fullmatch=True),
    st.sampled_from(
        ["nan", "inf", "-1", "0, GPU-a, n, 1, 1, 1", '{"card0": {"VRAM Total Memory (B)": 1e400}}', "[[[[", "{"]
    ),
)
reports = st.lists(st.tuples(st.sampled_from(WORDS), values), max_size=30)


@given(reports, st.binary(max_size=200))
def test_no_report_breaks_the_reader_and_the_broker_takes_every_capacity(
    lines: list[tuple[str, str]], noise: bytes
) -> None:
    report = BASE.encode() + "".join(f"{word} {value}\n" for word, value in lines).encode("utf-8", "replace") + noise
    found = parse(report)
    checked(Hello(WorkerInfo("w", "boot", capacity_of(found))))
    assert found.user.isprintable() and 0 <= found.mem_free_mib <= found.mem_total_mib
    document = free_report(found)
    json.dumps(document, allow_nan=False)
    assert 0.0 <= found.uptime_s < 1e13
