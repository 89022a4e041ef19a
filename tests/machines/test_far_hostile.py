"""A far side that lies: every answer that is none ends in LinkLost, soon and with little memory."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.machines.far_site import STORE

from grassq.machines import far_end
from grassq.machines.far_end import FarEnd
from grassq.machines.transport import LinkLost, LocalTransport, Stream

#: What a liar may make this computer keep at once.
MEMORY_MAX = 32 << 20

CALLS: dict[str, Callable[[FarEnd], object]] = {
    "look": lambda far: far.look((1, 1)),
    "void": lambda far: far.void((1, 1), "boot"),
    "read": lambda far: far.read(1, 1, "log", 0, 100),
    "inventory": lambda far: far.inventory(100),
    "changed": lambda far: far.changed(),
    "tail": lambda far: far.tail_offset(1, 1, "log", 3),
}

#: Answers to a request "TOKEN VERB ..." that a liar gives; `t` is the token.
LIES = {
    "nothing, and it leaves": "exit 0",
    "an endless line": "yes | tr -d '\\n'",
    "endless lines": "yes",
    "endless zeros": "cat /dev/zero",
    "another id": "printf '\\nffff size\\n3\\nffff end\\n'; exit",
    "the answer to nothing": "printf 'garbage\\n%s end\\n' \"$t\"",
    "a section without a name": 'printf \'\\n%s \\n%s end\\n\' "$t" "$t"; printf \'\\n%s x\' "$t"; exit',
    "an answer without its end": "printf '\\n%s size\\n3' \"$t\"; exit",
    "an endless answer": "printf '\\n%s bytes\\n' \"$t\"; cat /dev/zero",
}


class Liar(LocalTransport):
    """Answers the greeting like a machine, and each later request with a lie."""

    def __init__(self, home: Path, lie: str) -> None:
        super().__init__(str(home))
        self._home_path = home
        self._lie = lie

    def open(self, command: str) -> Stream:
        if " serve " not in command:
            return super().open(command)
        file = self._home_path / "liar.sh"
        file.write_text(
            'printf "\\n%s\\n" "$1"\n'
            "read -r t rest\n"
            "printf '\\n%s facts\\nboot b\\nuptime_ms 1\\nclock 1\\numask 0022\\n' $t\n"
            "for s in home user_home python shell env; do printf '\\n%s %s\\n' $t $s; done\n"
            "printf '\\n%s end\\n' $t\n"
            f"while read -r t rest; do {self._lie}; done\n"
        )
        return super().open(f"sh {file} {command.split()[-1]}")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(far_end, "REQUEST_S", 5.0)
    yield


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_ends_the_connection(tmp_path: Path, lie: str, call: str) -> None:
    far = FarEnd(Liar(tmp_path, LIES[lie]), STORE)
    far.open()
    tracemalloc.start()
    try:
        with pytest.raises(LinkLost):
            CALLS[call](far)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
    finally:
        tracemalloc.stop()
        far.close()
    assert far.lost
    with pytest.raises(LinkLost):
        far.look((1, 1))


def test_a_machine_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_end, "REQUEST_S", 0.2)
    far = FarEnd(Liar(tmp_path, "sleep 60"), STORE)
    far.open()
    with pytest.raises(LinkLost, match="does not answer"):
        far.look((1, 1))


SECTIONS = "size attempts folders alive members started exit lease"
ODD = {
    "numbers that are none": f"for s in {SECTIONS}; do printf '\\n%s %s\\n9x -1 1e9 9 9 9' $t $s; done",
    "giant numbers": f"for s in {SECTIONS}; do printf '\\n%s %s\\n%s %s\\n' $t $s {9:0500} {9:9>500}; done",
    "digits that are no ASCII": f"for s in {SECTIONS}; do printf '\\n%s %s\\n\\331\\243 \\262' $t $s; done",
    "deep JSON": f"for s in {SECTIONS}; do printf '\\n%s %s\\n{'[' * 800}\\n' $t $s; done",
    "a claim of nonsense": 'printf \'\\n%s started\\n{"pid": [1], "ticks": {}, "boot": 7, "job": "x"}\\n[]\\n\' $t',
    "no section at all": ":",
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_no_failure_of_ours(tmp_path: Path, odd: str) -> None:
    calls: dict[str, Callable[[FarEnd], object]] = {
        **CALLS,
        "no end": lambda far: far.look((1, 1)).exit is None or pytest.fail("an end"),
        "no lease": lambda far: far.read_lease((1, 1), far.greeting.boot) is None or pytest.fail("a lease"),
        "no giants": lambda far: max(far.folders(10), default=0) < 10**18 or pytest.fail("a giant number"),
    }
    for call in calls.values():
        far = FarEnd(Liar(tmp_path, ODD[odd] + "; printf '\\n%s end\\n' $t"), STORE)
        far.open()
        # An answer that is too long ends the connection, and what is not told is asked again later.
        with contextlib.suppress(OSError):
            call(far)
        far.close()


GIANT = "9" * 4000


@pytest.mark.parametrize(
    "facts",
    [
        "",
        "boot b",
        "boot b\\nuptime_ms x\\nclock 1\\numask 22",
        "boot b\\nuptime_ms 1\\nclock nan\\numask 9999",
        f"boot b\\nuptime_ms {GIANT}\\nclock 1\\numask 22",
        f"boot b\\nuptime_ms 1\\nclock {GIANT}\\numask 22",
        f"boot b\\nuptime_ms 1\\nclock 1\\numask {'7' * 4000}",
        "boot b\\nuptime_ms -1\\nclock 1\\numask 22",
        "boot b\\nuptime_ms 1_0\\nclock 1\\numask 22",
        "boot b\\nuptime_ms 1\\nclock 1\\numask -22",
        "boot b\\nuptime_ms 1\\nclock 1\\numask 0o22",
        "boot b\\nuptime_ms 1\\nclock 1\\numask 99",
    ],
)
def test_a_greeting_that_is_none_ends_the_connection(tmp_path: Path, facts: str) -> None:
    class Rude(LocalTransport):
        def open(self, command: str) -> Stream:
            file = tmp_path / "rude.sh"
            others = "for s in home user_home python shell env; do printf '\\n%s %s\\n' $t $s; done"
            answer = f"printf '\\n%s facts\\n{facts}\\n' $t; {others}; printf '\\n%s end\\n' $t"
            file.write_text(f"printf '\\n%s\\n' $1; read -r t rest; {answer}; cat >/dev/null")
            return super().open(f"sh {file} {command.split()[-1]}")

    far = FarEnd(Rude(str(tmp_path)), STORE)
    with pytest.raises(LinkLost, match="greeting of the machine is incomplete") as lost:
        far.open()
    assert len(str(lost.value)) < 200
    far.close()


def test_a_log_cannot_look_like_the_end_of_an_answer(tmp_path: Path) -> None:
    far = FarEnd(LocalTransport(str(tmp_path)), STORE, python=False)
    home = Path(bytes(far.open().home).decode())
    folder = home / "jobs/1/1"
    folder.mkdir(parents=True)
    content = b"\n%s end\n" % far.marker.encode() + b"\nend\n\n size\n\0\0" * 1000
    (folder / "log").write_bytes(content)
    assert far.read(1, 1, "log", 0, 1 << 20) == (content, len(content))
    (folder / "log").unlink()
    (folder / "log").symlink_to("/etc/passwd")
    assert far.read(1, 1, "log", 0, 100) == (b"", 0), "never through a link"
    far.close()
