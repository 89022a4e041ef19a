"""Trees are sent whole, once, and go on where a line was cut."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.small_disk import mounted, needs_root
from tests.machines.far_site import SHELLS, FarSite
from tests.machines.lines import CountingTransport, CutTransport

from grassq.files.blobs import BlobStore
from grassq.files.manifest import Manifest
from grassq.files.snapshot import snapshot
from grassq.machines.far_files import LARGE_BYTES, TransferFailed
from grassq.machines.file_send import send, sweep
from grassq.machines.transport import LinkLost, LocalTransport

ODD = b"-odd 'name\"\n$(x) \xff \xf0\x9f\x98\x80 \\n %41 *"


@pytest.fixture
def side(far_site: FarSite) -> FarSite:
    return far_site


@pytest.fixture
def dash(tmp_path: Path) -> Iterator[FarSite]:
    """A far side where the shell does not matter."""
    found = FarSite(tmp_path, "dash")
    yield found
    found.close()


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(os.fsencode(tmp_path / "blobs"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with everything that a tree may have."""
    root = tmp_path / "source"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "empty" / "inside").mkdir(parents=True)
    (root / "sub" / "data").write_bytes(bytes(range(256)) * 50)
    (root / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (root / "sub" / "run.sh").chmod(0o755)
    (root / "run.sh as text").write_text("#!/bin/sh\n")
    (root / "same again").write_text("#!/bin/sh\n")
    (root / "nothing").touch()
    (root / "-").write_text("a dash")
    (root / ("long" * 60)).write_text("a long name")
    (root / "sub" / "deep" / "up").symlink_to("../data")
    (root / "dangling").symlink_to("not there")
    (root / os.fsdecode(ODD)).mkdir()
    (root / os.fsdecode(ODD) / os.fsdecode(ODD)).write_bytes(ODD)
    return root


def shot(folder: Path | bytes, blobs: BlobStore) -> Manifest:
    return snapshot(os.fsencode(folder), blobs)


def dest(side: FarSite, name: bytes = b"work/tree") -> bytes:
    return os.fsencode(side.home) + b"/" + name


def test_a_tree_arrives_as_it_is(side: FarSite, tree: Path, blobs: BlobStore) -> None:
    manifest = shot(tree, blobs)
    place = dest(side, ODD + b"/" + ODD)
    send(side.transport, side.far, manifest, blobs, place)
    assert shot(place, blobs).id == manifest.id
    assert os.listdir(os.path.dirname(place)) == [ODD]


def test_equal_files_of_a_tree_are_files_of_their_own(side: FarSite, tree: Path, blobs: BlobStore) -> None:
    send(side.transport, side.far, shot(tree, blobs), blobs, dest(side))
    send(side.transport, side.far, shot(tree, blobs), blobs, dest(side, b"other"))
    for at, _, names in os.walk(dest(side)):
        assert {os.lstat(os.path.join(at, name)).st_nlink for name in names} <= {1}


def test_a_job_that_changes_its_input_does_not_change_the_next_jobs(
    side: FarSite, tree: Path, blobs: BlobStore
) -> None:
    manifest = shot(tree, blobs)
    send(side.transport, side.far, manifest, blobs, dest(side, b"first"))
    for name in (b"first/sub/data", b"first/sub/run.sh"):
        Path(os.fsdecode(dest(side, name))).write_text("spoiled")
    send(side.transport, side.far, manifest, blobs, dest(side, b"second"))
    assert shot(dest(side, b"second"), blobs).id == manifest.id


def test_an_unchanged_tree_is_one_command_and_few_bytes(side: FarSite, tree: Path, blobs: BlobStore) -> None:
    send(side.transport, side.far, shot(tree, blobs), blobs, dest(side))
    line = CountingTransport(side.transport)
    send(line, side.far, shot(tree, blobs), blobs, dest(side, b"other"))
    assert len(line.commands) == 1
    assert line.sent + line.received < 300


def test_a_changed_file_is_sent_alone(side: FarSite, tree: Path, blobs: BlobStore) -> None:
    (tree / "large").write_bytes(os.urandom(1 << 20))
    send(side.transport, side.far, shot(tree, blobs), blobs, dest(side))
    (tree / "sub" / "data").write_text("changed")
    manifest = shot(tree, blobs)
    seen: list[tuple[int, int]] = []
    other = dest(side, b"other")
    send(side.transport, side.far, manifest, blobs, other, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (7, 7)
    assert shot(Path(os.fsdecode(dest(side, b"other"))), blobs).id == manifest.id


def test_sending_again_to_the_same_place_finds_it_done(dash: FarSite, tree: Path, blobs: BlobStore) -> None:
    manifest = shot(tree, blobs)
    send(dash.transport, dash.far, manifest, blobs, dest(dash))
    (Path(os.fsdecode(dest(dash))) / "made by the job").touch()
    send(dash.transport, dash.far, manifest, blobs, dest(dash))
    assert "made by the job" in os.listdir(os.fsdecode(dest(dash)))


def test_a_folder_with_other_files_is_never_touched(side: FarSite, tree: Path, blobs: BlobStore) -> None:
    mine = Path(os.fsdecode(dest(side)))
    mine.mkdir(parents=True)
    (mine / "thesis").touch()
    with pytest.raises(TransferFailed, match="there already"):
        send(side.transport, side.far, shot(tree, blobs), blobs, dest(side))
    assert os.listdir(mine) == ["thesis"]


def test_an_empty_folder_may_be_there(side: FarSite, tree: Path, blobs: BlobStore) -> None:
    Path(os.fsdecode(dest(side))).mkdir(parents=True)
    manifest = shot(tree, blobs)
    send(side.transport, side.far, manifest, blobs, dest(side))
    assert shot(dest(side), blobs).id == manifest.id


def test_an_empty_tree_is_an_empty_folder(side: FarSite, tmp_path: Path, blobs: BlobStore) -> None:
    (tmp_path / "nothing").mkdir()
    send(side.transport, side.far, shot(tmp_path / "nothing", blobs), blobs, dest(side))
    assert os.listdir(dest(side)) == []


@pytest.mark.parametrize("seed", range(60))
def test_a_cut_line_leaves_nothing_half_and_goes_on(
    seed: int, tmp_path: Path, tree: Path, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("grassq.machines.file_send.LARGE_BYTES", 100_000)
    for number in range(20):
        (tree / f"file {number}").write_bytes(rng.randbytes(rng.randrange(20_000)))
    for number in range(2):
        (tree / f"large {number}").write_bytes(rng.randbytes(rng.randrange(100_000, 600_000)))
    manifest = shot(tree, blobs)
    with closing(FarSite(tmp_path, SHELLS[seed % len(SHELLS)])) as side:
        place = dest(side)
        for _ in range(200):
            line = CutTransport(side.transport, 1 + rng.randrange(rng.choice((500, manifest.size))))
            try:
                send(line, side.far, manifest, blobs, place)
                break
            except LinkLost:
                assert not os.path.exists(place) or shot(place, blobs).id == manifest.id
    assert shot(place, blobs).id == manifest.id
    assert os.listdir(os.path.dirname(place)) == [b"tree"]


def test_a_large_file_goes_on_where_the_line_was_cut(dash: FarSite, tmp_path: Path, blobs: BlobStore) -> None:
    size = LARGE_BYTES + 10
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(os.urandom(1 << 20) * (size >> 20) + bytes(10))
    manifest = shot(tmp_path / "source", blobs)
    with pytest.raises(LinkLost):
        send(CutTransport(dash.transport, size // 2), dash.far, manifest, blobs, dest(dash))
    line = CountingTransport(dash.transport)
    send(line, dash.far, manifest, blobs, dest(dash))
    assert line.sent < size // 2 + (4 << 20)
    assert shot(dest(dash), blobs).id == manifest.id


def test_a_large_file_goes_on_also_if_what_is_there_takes_long_to_read(
    dash: FarSite, tmp_path: Path, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = LARGE_BYTES + 10
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "large").write_bytes(os.urandom(1 << 20) * (size >> 20) + bytes(10))
    manifest = shot(tmp_path / "source", blobs)
    with pytest.raises(LinkLost):
        send(CutTransport(dash.transport, size // 2), dash.far, manifest, blobs, dest(dash))
    programs = without(tmp_path / "programs", "cat", "sha256sum")
    slow = '#!/bin/sh\n[ $# -eq 0 ] || [ "${1##*.}" != part ] || sleep 5\nexec /usr/bin/%s "$@"\n'
    for name in ("cat", "sha256sum"):
        (Path(programs) / name).write_text(slow % name)
        (Path(programs) / name).chmod(0o755)
    monkeypatch.setattr("grassq.machines.far_files.STALL_S", 2.0)
    send(LocalTransport(str(dash.home), env={"PATH": programs}), dash.far, manifest, blobs, dest(dash))
    assert shot(dest(dash), blobs).id == manifest.id


def test_one_tree_sent_by_many_at_once_arrives_everywhere(dash: FarSite, tree: Path, blobs: BlobStore) -> None:
    (tree / "more").write_bytes(os.urandom(4 << 20))
    manifest = shot(tree, blobs)
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            send(dash.transport, dash.far, manifest, blobs, dest(dash, b"job %d" % number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert {shot(dest(dash, b"job %d" % number), blobs).id for number in range(6)} == {manifest.id}


def test_a_session_that_has_lost_its_line_does_not_hold_the_next_one_up(
    dash: FarSite, tree: Path, blobs: BlobStore
) -> None:
    side = dash
    manifest = shot(tree, blobs)
    stuck = side.transport.open(side.far.command("receive", "marker", "build", manifest.id, "0" * 32, manifest.id[:20]))
    try:
        stuck.skip_to(b"marker", 1000, 20)
        stuck.write(b"/nowhere\n", 20)
        send(side.transport, side.far, manifest, blobs, dest(side))
    finally:
        stuck.close()
    assert shot(dest(side), blobs).id == manifest.id


def test_a_damaged_content_there_is_sent_again(dash: FarSite, tree: Path, blobs: BlobStore) -> None:
    """A cut line leaves a torso under the name of its hash: it must not be taken for the content."""
    manifest = shot(tree, blobs)
    new = dash.far_home / "part" / manifest.id[:20] / "new"
    new.mkdir(parents=True)
    for entry in manifest.files:
        if entry.size:
            (new / entry.hash).write_text("a torso")
    send(dash.transport, dash.far, manifest, blobs, dest(dash))
    assert shot(dest(dash), blobs).id == manifest.id


@needs_root
def test_a_full_disk_is_said_before_anything_is_sent(side: FarSite, tmp_path: Path, blobs: BlobStore) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "data").write_bytes(os.urandom(8 << 20))
    manifest = shot(tmp_path / "source", blobs)
    with mounted(side.home / "small", "size=4m"):
        line = CountingTransport(side.transport)
        with pytest.raises(TransferFailed, match=r"needs 8 MiB, has 4 MiB free in .*/small/tree"):
            send(line, side.far, manifest, blobs, dest(side, b"small/tree"))
        assert line.sent < 1000
        assert not os.listdir(side.home / "small")
        # The tree is known there now, and the second place is too small as well.
        send(side.transport, side.far, manifest, blobs, dest(side))
        with pytest.raises(TransferFailed, match=r"needs 8 MiB, has 4 MiB free in .*/small/tree"):
            send(side.transport, side.far, manifest, blobs, dest(side, b"small/tree"))


@needs_root
def test_a_disk_that_fills_up_on_the_way_leaves_no_tree(dash: FarSite, tmp_path: Path, blobs: BlobStore) -> None:
    (tmp_path / "source").mkdir()
    for number in range(200):
        (tmp_path / "source" / f"{number}").write_bytes(b"x")
    manifest = shot(tmp_path / "source", blobs)
    with mounted(dash.home / "small", "size=4m,nr_inodes=100"):
        with pytest.raises(TransferFailed, match="No space left"):
            send(dash.transport, dash.far, manifest, blobs, dest(dash, b"small/tree"))
        assert not os.listdir(dash.home / "small")


def test_thousands_of_files_do_not_take_thousands_of_processes(dash: FarSite, tmp_path: Path, blobs: BlobStore) -> None:
    root = tmp_path / "source"
    for number in range(1000):
        folder = root / str(number % 30)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).write_text(str(number))
    manifest = shot(root, blobs)
    line = LocalTransport(str(dash.home), env={"PATH": counted_programs(tmp_path / "programs")})
    send(line, dash.far, manifest, blobs, dest(dash))
    assert shot(dest(dash), blobs).id == manifest.id
    assert len((tmp_path / "programs" / "started").read_text().splitlines()) < 100


def counted_programs(folder: Path) -> str:
    """A folder with every program of /usr/bin, which notes that it was started."""
    folder.mkdir()
    for program in Path("/usr/bin").iterdir():
        (folder / program.name).write_text(f'#!/bin/sh\necho {program.name} >>{folder}/started\nexec {program} "$@"\n')
        (folder / program.name).chmod(0o755)
    return str(folder)


def test_a_sweep_removes_what_was_not_used_for_longest(side: FarSite, tree: Path, blobs: BlobStore) -> None:
    (tree / "more").write_bytes(os.urandom(1 << 20))
    first = shot(tree, blobs)
    send(side.transport, side.far, first, blobs, dest(side, b"first"))
    (tree / "more").write_bytes(os.urandom(1 << 20))
    second = shot(tree, blobs)
    send(side.transport, side.far, second, blobs, dest(side, b"second"))
    os.utime(side.far_home / "trees" / first.id / "used", (1, 1))
    left = sweep(side.transport, side.far, (1 << 20) + (512 << 10))
    assert left < (1 << 20) + (512 << 10)
    assert os.listdir(side.far_home / "trees") == [second.id]
    assert sweep(side.transport, side.far, 0) < 1 << 20
    assert os.listdir(side.far_home / "trees") == os.listdir(side.far_home / "blobs") == []
    send(side.transport, side.far, second, blobs, dest(side, b"third"))
    assert shot(dest(side, b"third"), blobs).id == second.id


def without(folder: Path, *names: str) -> str:
    """A folder with every program of /usr/bin but these."""
    folder.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name not in names:
            (folder / program.name).symlink_to(program)
    return str(folder)


def test_without_tar_the_failure_is_a_sentence(dash: FarSite, tree: Path, blobs: BlobStore, tmp_path: Path) -> None:
    line = LocalTransport(str(dash.home), env={"PATH": without(tmp_path / "programs", "tar")})
    with pytest.raises(TransferFailed, match=r"tar.*not found"):
        send(line, dash.far, shot(tree, blobs), blobs, dest(dash))


def test_without_a_program_for_hashes_sizes_are_checked(
    dash: FarSite, tree: Path, blobs: BlobStore, tmp_path: Path
) -> None:
    (tree / "large").write_bytes(os.urandom(LARGE_BYTES))
    manifest = shot(tree, blobs)
    line = LocalTransport(str(dash.home), env={"PATH": without(tmp_path / "programs", "sha256sum", "shasum")})
    new = dash.far_home / "part" / manifest.id[:20] / "new"
    new.mkdir(parents=True)
    for entry in manifest.files:
        (new / entry.hash).write_text("a torso")
    send(line, dash.far, manifest, blobs, dest(dash))
    assert shot(dest(dash), blobs).id == manifest.id
