"""How far a job is, read from the last lines of its log."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.diagnosis.nested import CURSOR_UP, outer_bar
from grassq.core.diagnosis.progress import JobProgress, read, read_line


def known(done: float, total: float | None, left_s: float | None = None, rate: float | None = None) -> JobProgress:
    """Return progress with its fraction."""
    return JobProgress(done, total, None if total is None else done / total, left_s, rate)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # tqdm: plain, at its begin, in ASCII, slow, with units, with days, without a total, without a bar.
        ("ep 1:  73%|███████▎  | 730/1000 [01:12<00:26, 10.1it/s, acc=12/13]", known(730, 1000, 26, 10.1)),
        ("  0%|          | 0/100 [00:00<?, ?it/s]", known(0, 100)),
        ("73%|#######3  | 730/1000 [1:01:12<1 day, 2:00:00, 2.0s/it]", known(730, 1000, 93600, 0.5)),
        ("get:  24%|██▍  | 1.20M/5.00M [00:01<00:03, 1.27MB/s]", known(1.2e6, 5e6, 3, 1.27e6)),
        ("730it [01:12, 10.1it/s]", known(730, None, None, 10.1)),
        ("files: 12files [00:02, 4.0files/s]", known(12, None, None, 4.0)),
        ("730/1000 [01:12<00:26, 10.1it/s]", known(730, 1000, 26, 10.1)),
        # rich, pip, keras 2 and 3, wget.
        ("Working... ━━━━━━━━━━━━╸━━━━━━━━━━━  45% 0:00:12", JobProgress(fraction=0.45, left_s=12)),
        ("Working... ━━━━━━━━━━━━╸━━━━━━━━━━━  45% -:--:--", JobProgress(fraction=0.45)),
        ("   ━━━━━━━━━━╸━━━━━━━━━ 12.5/50.0 MB 10.0 MB/s eta 0:00:04", known(12.5e6, 50e6, 4, 10e6)),
        ("12/100 [==>...........................] - ETA: 3s - loss: 0.5", known(12, 100, 3)),
        ("12/100 ━━━━━━━━━━━━━━━━━━━━ 3s 40ms/step - accuracy: 0.5", known(12, 100, 3, 25)),
        ("100/100 ━━━━━━━━━━━━━━━━━━━━ 9s 40ms/step", known(100, 100, 0, 25)),
        ("file.bin   73%[====>   ] 12.3M  1.2MB/s    eta 3s", JobProgress(fraction=0.73, left_s=3, rate=1.2e6)),
        # Words.
        ("Epoch 3/10", known(3, 10)),
        ("step 100/2000 loss 0.3", known(100, 2000)),
        ("2026-01-02 10:11:12,123 INFO root: Iter 1,000 / 20,000", known(1000, 20000)),
        ("[12/100] Building CXX object", known(12, 100)),
        ("processed 12 of 40 files, eta 1h2m", known(12, 40, 3720)),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.29", known(640, 60000)),
        ("train: 1000/20000 (5%) loss 3", known(1000, 20000)),
        ("73%", JobProgress(fraction=0.73)),
        ("Progress: 45.5 % (ETA 1:00)", JobProgress(fraction=0.455, left_s=60)),
    ],
)
def test_one_line(line: str, expected: JobProgress) -> None:
    found = read_line(line)
    assert found is not None
    for name in JobProgress.__struct_fields__:
        have, want = getattr(found, name), getattr(expected, name)
        assert have == want or (have is not None and want is not None and math.isclose(have, want)), (name, found)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            " ",
            "hello",
            "accuracy 73%",
            "Test accuracy: 98.2% on 12/31/2026",
            "/data/12/100/x",
            "12/31/2026 at noon",
        ),
        *("iteration 5/0", "step 7/3", "loss 3/10", "150%", "lr=1e-3/2", "http://host:80/1/2", "v1.2/3.4", "-3/4"),
    ],
)
def test_what_is_no_progress(line: str) -> None:
    assert read_line(line) is None


def test_bars_in_bars_count_together() -> None:
    outer = "outer:  30%|███       | 3/10 [00:10<00:20, 3.00s/it]"
    inner = "inner:  50%|█████     | 5/10 [00:01<00:01, 3.00it/s]"
    found = read([outer, inner])
    assert found is not None and found.fraction == 0.35 and (found.done, found.total) == (3, 10)
    assert found.left_s == 1 + 6 * 2
    # A bar that has ended is above the next one, not around it.
    over = "one: 100%|██████████| 10/10 [00:10<00:00, 1.00it/s]"
    found = read([over, inner])
    assert found is not None and found.fraction == 0.5
    for lines in (
        ["Epoch 3/10", "50/100 [=====>.......] - ETA: 3s - loss: 0.5"],
        ["Epoch 3/10:  50%|█████     | 50/100 [00:12<00:03, 3.7it/s]"],
        ["Epoch [3/10], Step [100/200], Loss: 0.4"],
    ):
        found = read(lines)
        assert found is not None and found.fraction == 0.25, lines
    assert read(["Epoch 3/10", "done"]) is None
    assert read([]) is None and read(["", " "]) is None


_PIECES = st.sampled_from(
    [*"0123456789/:[]<>%|.,-= ", "━", "█", "it/s", "eta ", "epoch ", "of ", "day, ", "\x1b[31m", "\u202e"]
)


@given(st.lists(st.one_of(_PIECES, st.text(max_size=8)), max_size=120).map("".join))
def test_any_line_is_read_within_bounds(line: str) -> None:
    found = read([line, line])
    if found is not None:
        assert found.fraction is None or 0 <= found.fraction <= 1
        assert found.left_s is None or 0 <= found.left_s < math.inf
        assert all(value is None or math.isfinite(value) for value in (found.done, found.total, found.rate))


@pytest.mark.parametrize("piece", ["9", "1/", "1/2", "[", "1:", "1 day, ", "eta 1h", "%1", "━", "1.1 ", "a/s "])
def test_a_line_of_a_megabyte_takes_no_time(piece: str) -> None:
    # The bound on what is read of a line is what keeps this fast: without it, this would not end.
    read([piece * (1_000_000 // len(piece))] * 4)


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.integers(0, 86399), st.floats(0.01, 1e6))
def test_tqdms_own_lines_are_read(done: int, total: int, elapsed: int, rate: float) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    done = min(done, total)
    line = tqdm.format_meter(done, total, elapsed, rate=rate, ncols=None, prefix="x")
    found = read_line(line)
    assert found is not None and (found.done, found.total) == (done, total)
    endless = read_line(tqdm.format_meter(done, None, elapsed, rate=rate))
    assert endless is not None and endless.done == done and endless.total is None


def test_the_outer_bar_is_found_where_tqdm_drew_it_last() -> None:
    import io

    tqdm = pytest.importorskip("tqdm").tqdm
    out = io.StringIO()
    outer = tqdm(total=10, desc="epochs", file=out, mininterval=0, ncols=70, ascii=False)
    for epoch in range(4):
        inner = tqdm(total=300, desc="train", file=out, mininterval=0, leave=False, position=1, ncols=70)
        for _ in range(300 if epoch < 3 else 150):
            inner.update(1)
        if epoch < 3:
            inner.close()
            outer.update(1)
    data = out.getvalue().encode()
    found = outer_bar(data)
    assert found is not None and found.startswith("epochs:  30%") and " 3/10 " in found
    assert CURSOR_UP in data[-8192:] and b"epochs" not in data[-8192:], "it is far before the end"
    both = read([found, "train:  50%|#####     | 150/300 [00:01<00:01, 100.0it/s]"])
    assert both is not None and both.fraction == 0.35


@given(st.binary(max_size=300))
def test_any_bytes_may_be_searched_for_an_outer_bar(data: bytes) -> None:
    found = outer_bar(data)
    assert found is None or found.strip()
