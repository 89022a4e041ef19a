"""What a machine has: processors and memory, and cards as the driver's own library tells them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from importlib.metadata import EntryPoint
from pathlib import Path

import psutil
import pytest

from grassq.core.resources.amounts import ONE
from grassq.core.resources.capacity import Capacity, Device, Devices, Pool
from grassq.worker.devices import host, nvidia
from grassq.worker.devices.detector import Detector
from grassq.worker.devices.detectors import DETECTORS, GROUP, PLUGINS_MAX, found_by, installed, variables_of

# As much of the driver as is asked: three entry points per question, and the memory of each card.
DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { unsigned long long total, free, used; } memory_t;
static int count(void) { const char *n = getenv("FAKE_CARDS"); return n ? atoi(n) : 0; }
int nvmlInitWithFlags(unsigned flags) {
    const char *mood = getenv("FAKE_MOOD");
    if (mood && !strcmp(mood, "crash")) abort();
    if (mood && !strcmp(mood, "hang")) for (;;) pause();
    if (mood && !strcmp(mood, "mismatch")) return 18;
    return mood && !strcmp(mood, "sick") ? 9 : 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "fake error"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = count(); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **handle) { *handle = (void *)(unsigned long)(i + 1); return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    const char *lost = getenv("FAKE_LOST");
    if (lost && (unsigned long)atoi(lost) + 1 == (unsigned long)handle) return 15;
    memory->total = (unsigned long long)(unsigned long)handle * 8192ull * 1024 * 1024;
    memory->free = memory->total; memory->used = 0;
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
    snprintf(text, length, "GPU-%lu", (unsigned long)handle);
    return 0;
}
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver library."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "fake.c").write_text(DRIVER)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "fake.c"], check=True)
    return folder


@pytest.fixture
def quiet_path(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The detection is a process of its own: it must find the package."""
    source = str(Path(__file__).parents[2] / "src")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]))
    return monkeypatch


def _detect() -> Capacity:
    return asyncio.run(nvidia.detect())


def test_cards_are_detected_through_the_drivers_library(driver: Path, quiet_path: pytest.MonkeyPatch) -> None:
    quiet_path.setenv("LD_LIBRARY_PATH", str(driver))
    quiet_path.setenv("FAKE_CARDS", "2")
    assert _detect() == {"gpu": Devices((Device("0", ONE, 8192 * ONE), Device("1", ONE, 16384 * ONE)))}


def test_a_driver_without_cards_means_no_gpu(driver: Path, quiet_path: pytest.MonkeyPatch) -> None:
    quiet_path.setenv("LD_LIBRARY_PATH", str(driver))
    assert _detect() == {}


def test_no_driver_means_no_gpu(tmp_path: Path, quiet_path: pytest.MonkeyPatch) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")
    quiet_path.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert _detect() == {}


def test_a_card_that_fails_hides_no_other_and_is_named_in_the_log(
    driver: Path, quiet_path: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    quiet_path.setenv("LD_LIBRARY_PATH", str(driver))
    quiet_path.setenv("FAKE_CARDS", "3")
    quiet_path.setenv("FAKE_LOST", "1")
    assert _detect() == {"gpu": Devices((Device("0", ONE, 8192 * ONE), Device("2", ONE, 24576 * ONE)))}
    assert "card 1" in caplog.text


@pytest.mark.parametrize(("mood", "warned"), [("sick", False), ("mismatch", True)])
def test_a_driver_that_is_not_there_is_no_warning_and_one_that_fails_is(
    driver: Path, quiet_path: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mood: str, warned: bool
) -> None:
    quiet_path.setenv("LD_LIBRARY_PATH", str(driver))
    quiet_path.setenv("FAKE_MOOD", mood)
    assert _detect() == {}
    assert bool(caplog.records) is warned


@pytest.mark.parametrize("mood", ["sick", "crash", "mismatch"])
def test_a_driver_that_fails_takes_nobody_along(driver: Path, quiet_path: pytest.MonkeyPatch, mood: str) -> None:
    quiet_path.setenv("LD_LIBRARY_PATH", str(driver))
    quiet_path.setenv("FAKE_CARDS", "2")
    quiet_path.setenv("FAKE_MOOD", mood)
    assert _detect() == {}


def test_a_driver_that_hangs_is_given_up(driver: Path, quiet_path: pytest.MonkeyPatch) -> None:
    quiet_path.setenv("LD_LIBRARY_PATH", str(driver))
    quiet_path.setenv("FAKE_MOOD", "hang")
    quiet_path.setattr(nvidia, "DETECT_TIMEOUT_S", 1.0)
    assert _detect() == {}


def test_processors_are_those_we_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    assert asyncio.run(host.detect())["cpu"] == Pool(len(allowed) * ONE)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert asyncio.run(host.detect())["cpu"] == Pool(ONE)
    finally:
        os.sched_setaffinity(0, allowed)


def test_memory_is_what_the_container_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total = psutil.virtual_memory().total
    limit = tmp_path / "memory.max"
    for content, expected in (("max", total), ("", total), (str(64 << 20), 64 << 20), (str(1 << 62), total)):
        limit.write_text(content)
        monkeypatch.setattr(host, "_LIMITS", (str(limit), str(tmp_path / "none")))
        assert asyncio.run(host.detect())["mem"] == Pool((expected >> 20) * ONE)


async def _two_tapes() -> Capacity:
    return {"tape": Devices((Device("a"), Device("b"))), "cpu": Pool(99 * ONE)}


async def _raise() -> Capacity:
    raise RuntimeError("no driver")


TAPES = Detector(frozenset({"tape"}), _two_tapes, variables=(("tape", b"TAPES"),))
OTHER_TAPES = Detector(frozenset({"tape"}), _two_tapes)
BROKEN = Detector(frozenset({"printer"}), _raise)
NO_NAME = Detector(frozenset({"No Name"}), _two_tapes)
NO_DETECTOR = "a text"


def _points(*names: str) -> list[EntryPoint]:
    return [EntryPoint(f"{number} {name}", f"{__name__}:{name}", GROUP) for number, name in enumerate(names)]


def test_a_detector_of_another_package_finds_its_resources_and_no_others() -> None:
    (tapes,) = installed(_points("TAPES"))
    assert asyncio.run(found_by(tapes)) == {"tape": Devices((Device("a"), Device("b")))}
    variables = variables_of((*DETECTORS, tapes))
    assert variables.of(b"tape", b"a,b") == {b"TAPES": b"a,b"}
    assert variables.hidden == {b"TAPES", b"CUDA_VISIBLE_DEVICES"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("OTHER_TAPES", "another detector"),
        ("NO_NAME", "not a resource name"),
        ("NO_DETECTOR", "not a Detector but str"),
        ("MISSING", "AttributeError"),
    ],
)
def test_a_detector_that_cannot_be_used_costs_one_line_and_no_other(
    name: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert [*installed(_points("TAPES", name, "BROKEN"))] == [TAPES, BROKEN]
    (record,) = caplog.records
    assert why in record.getMessage() and name in record.getMessage()


def test_only_so_many_detectors_are_loaded(caplog: pytest.LogCaptureFixture) -> None:
    assert [*installed(_points("TAPES", *["MISSING"] * PLUGINS_MAX))] == [TAPES]
    assert "more than" in caplog.records[0].getMessage()


def test_a_detector_that_fails_finds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert asyncio.run(found_by(BROKEN)) == {}
    assert "printer" in caplog.text and "no driver" in caplog.text
