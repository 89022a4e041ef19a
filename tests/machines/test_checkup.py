"""`grass machine test`: what each step says of a machine that works, and of machines that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.small_disk import fill, free, mounted, needs_root
from tests.machines.fake_tools import A100, path_with, put_nvidia, put_tool
from tests.machines.site import NOISY_BASHRC, MachineSite

from grassq.errors import GrassError
from grassq.machines.checkup import Step, checkup
from grassq.machines.ssh.mux import TooManySessions
from grassq.machines.ssh.target import SshTarget
from grassq.machines.ssh.transport import SshTransport
from grassq.machines.transport import LocalTransport, Stream

STORE = "5eed"
FOLDER = ".grass-ssh"
STEPS = ["login", "shell", "Python", "space", "GPUs", "logout", "clock", "sessions", "speed", "leftovers"]


class Login(LocalTransport):
    """This computer as a machine, with a login that may fail and a bound on sessions."""

    def __init__(self, folder: Path, shell: tuple[str, ...] = ("dash",), *, sessions: int = 10) -> None:
        self.home, self.tools = folder / "home", folder / "tools"
        self.home.mkdir(exist_ok=True)
        self.tools.mkdir(exist_ok=True)
        self.failure: GrassError | None = None
        self.streams: list[Stream] = []
        self.is_closed = False
        self._sessions = sessions
        super().__init__(str(self.home), shell=shell, env=path_with(self.tools))

    def connect(self) -> None:
        if self.failure is not None:
            raise self.failure

    def open(self, command: str) -> Stream:
        self.streams = [stream for stream in self.streams if not stream.is_closed]
        if len(self.streams) >= self._sessions:
            raise TooManySessions(0, "session open refused by peer")
        self.streams.append(super().open(command))
        return self.streams[-1]

    def close(self) -> None:
        self.is_closed = True


def steps_of(login: Login) -> dict[str, Step]:
    found = list(checkup(login, STORE, FOLDER))
    assert login.is_closed
    assert all(stream.is_closed for stream in login.streams)
    assert list(login.home.iterdir()) in ([], [login.home / FOLDER]), "a test leaves nothing there"
    return {step.name: step for step in found}


@pytest.mark.parametrize("shell", [("dash",), ("bash",), ("busybox", "sh")], ids=["dash", "bash", "busybox"])
def test_a_machine_that_works_passes_every_step(tmp_path: Path, shell: tuple[str, ...]) -> None:
    login = Login(tmp_path, shell)
    put_tool(login.tools, "sh", f'exec {" ".join(shell)} "$@"')
    put_nvidia(login.tools, A100)
    found = steps_of(login)
    assert list(found) == STEPS
    assert [step for step in found.values() if step.ok is False] == []
    assert shell[0] in found["shell"].words
    assert found["GPUs"].words == "0 NVIDIA A100, 40,960 MiB"
    assert "MiB/s there" in found["speed"].words


def test_a_failing_login_is_told_in_its_words_and_ends_the_test(tmp_path: Path) -> None:
    login = Login(tmp_path)
    login.failure = GrassError("the key was refused; add it there")
    assert list(checkup(login, STORE, FOLDER)) == [Step("login", False, "the key was refused; add it there")]


def test_a_shell_that_runs_no_command_ends_the_test(tmp_path: Path) -> None:
    login = Login(tmp_path)
    put_tool(login.tools, "sh", "echo 'This account is \033[8mnot available.' >&2; exit 1")
    found = steps_of(login)
    assert list(found) == ["login", "shell"]
    assert found["shell"].ok is False
    assert "This account is \\x1b[8mnot available." in found["shell"].words


def test_noise_of_the_shell_is_counted(tmp_path: Path) -> None:
    login = Login(tmp_path)
    put_tool(login.tools, "sh", 'printf "Welcome!"; exec dash "$@"')
    found = steps_of(login)
    assert found["shell"].ok is None and "prints 8 bytes" in found["shell"].words
    assert found["clock"].ok is True


def test_without_python_sh_supervises(tmp_path: Path) -> None:
    login = Login(tmp_path)
    put_tool(login.tools, "python3", "exit 1")
    assert steps_of(login)["Python"] == Step("Python", True, "none: sh supervises the jobs")
    put_tool(login.tools, "python3", "echo 3.6.8")
    assert "too old" in steps_of(login)["Python"].words


@needs_root
def test_a_disk_without_room_for_a_byte_is_said(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=64k") as disk:
        login = Login(disk)
        fill(disk)
        found = {step.name: step for step in checkup(login, STORE, FOLDER)}
        free(disk)
    assert found["space"].ok is False and "make room there" in found["space"].words


def test_a_machine_without_tar_is_said_to_take_no_files(tmp_path: Path) -> None:
    login = Login(tmp_path)
    for program in Path("/usr/bin").iterdir():
        if program.name != "tar":
            (login.tools / program.name).symlink_to(program)
    without = LocalTransport(str(login.home), shell=("dash",), env={"PATH": str(login.tools)})
    found = {step.name: step for step in checkup(_AlwaysIn(without), STORE, FOLDER)}
    assert found["Python"].ok is None and "there is no tar: jobs get no files" in found["Python"].words


class _AlwaysIn:
    """A transport that is logged in."""

    def __init__(self, inner: LocalTransport) -> None:
        self.open = inner.open

    def connect(self) -> None: ...

    def close(self) -> None: ...


def test_little_or_no_space_is_said(tmp_path: Path) -> None:
    login = Login(tmp_path)
    for free_kib, ok in ((900 * 1024, None), (1024, False), (90 * 1024 * 1024, True)):
        put_tool(login.tools, "df", f"echo Filesystem; echo '/dev/sda1 100 100 {free_kib} 99% /a home'")
        step = steps_of(login)["space"]
        assert (step.ok, "free on /a home" in step.words) == (ok, True)


def test_a_home_that_cannot_be_written_fails(tmp_path: Path) -> None:
    login = Login(tmp_path)
    put_tool(login.tools, "mktemp", "exit 1")
    found = steps_of(login)
    assert found["space"].ok is False and "cannot be written" in found["space"].words


def test_a_driver_that_fails_is_a_remark(tmp_path: Path) -> None:
    login = Login(tmp_path)
    put_nvidia(login.tools, code=9, words="NVIDIA-SMI has failed")
    step = steps_of(login)["GPUs"]
    assert step.ok is None and "NVIDIA-SMI has failed" in step.words


def test_a_clock_that_is_off_is_a_remark(tmp_path: Path) -> None:
    login = Login(tmp_path)
    put_tool(login.tools, "date", "echo 1000000000")
    step = steps_of(login)["clock"]
    assert step.ok is None and "behind the one here" in step.words
    put_tool(login.tools, "date", "echo soon")
    assert steps_of(login)["clock"].ok is None


@pytest.mark.parametrize(("sessions", "ok"), [(1, False), (2, None), (4, True)])
def test_few_sessions_are_said(tmp_path: Path, sessions: int, ok: bool | None) -> None:
    found = steps_of(Login(tmp_path, sessions=sessions))
    assert found["sessions"].ok is ok
    assert found["speed"].ok is True, "the other steps still run"


def test_bytes_that_get_lost_on_the_way_are_noticed(tmp_path: Path) -> None:
    login = Login(tmp_path)
    put_tool(login.tools, "wc", "cat >/dev/null; echo 17")
    assert steps_of(login)["speed"].ok is False


@pytest.mark.parametrize("tool", ["wc", "ls"])
def test_answers_that_trickle_or_never_end_fail_their_step_alone(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grassq.machines.checkup.ANSWER_S", 1.0)
    login = Login(tmp_path)
    first = "cat >/dev/null; " if tool == "wc" else ""
    put_tool(login.tools, tool, f"{first}while echo 1; do sleep 0.02; done")
    found = steps_of(login)
    assert [step.name for step in found.values() if step.ok is False] == [{"wc": "speed", "ls": "leftovers"}[tool]]
    assert list(found) == STEPS
    put_tool(login.tools, tool, f"{first}exec yes")
    assert list(steps_of(login)) == STEPS


def test_folders_of_other_stores_are_named(tmp_path: Path) -> None:
    login = Login(tmp_path)
    for store in (STORE, "0dd5", "\033[8mevil"):
        (login.home / FOLDER / store).mkdir(parents=True)
    step = steps_of(login)["leftovers"]
    assert step.ok is None and "0dd5" in step.words and "evil" not in step.words and STORE not in step.words


@pytest.mark.parametrize(
    ("lines", "ok", "hint"),
    [
        ("KillUserProcesses b true", False, "KillUserProcesses=no"),
        ("KillUserProcesses b false|RemoveIPC b true|linger no", None, "enable-linger"),
        ("KillUserProcesses b false|RemoveIPC b true|linger yes", True, "outlive"),
    ],
)
def test_a_login_manager_that_ends_jobs_is_said(tmp_path: Path, lines: str, ok: bool | None, hint: str) -> None:
    login = Login(tmp_path)
    more = lines.replace("|", "\\n")
    # What systemd says is added to what the machine says.
    put_tool(login.tools, "sh", f"dash \"$@\" | sed -u 's/^grass-probe end$/{more}\\n&/'")
    step = steps_of(login)["logout"]
    assert step.ok is ok and hint in step.words


# Over a real sshd.


def steps_over_ssh(site: MachineSite, folder: Path, name: str) -> dict[str, Step]:
    transport = SshTransport(SshTarget(name), str(folder), program=str(site.ssh))
    return {step.name: step for step in checkup(transport, STORE, FOLDER)}


def test_over_ssh_every_login_shell_passes(shared_site: MachineSite, tmp_path: Path) -> None:
    for shell in ("bash", "fish", "tcsh", "busybox"):
        shared_site.machine(f"with-{shell}", shell=shell, python=shell == "bash")
        found = steps_over_ssh(shared_site, tmp_path, f"with-{shell}")
        assert list(found) == STEPS
        assert {step.name: step.words for step in found.values() if step.ok is not True} == {}
        assert ("supervises" in found["Python"].words) and (("none" in found["Python"].words) == (shell != "bash"))


def test_over_ssh_each_fault_is_named_in_its_step(shared_site: MachineSite, tmp_path: Path) -> None:
    shared_site.machine("noisy", files={".bashrc": NOISY_BASHRC})
    assert "prints 100,000 bytes" in steps_over_ssh(shared_site, tmp_path, "noisy")["shell"].words
    shared_site.machine("two", max_sessions=2)
    found = steps_over_ssh(shared_site, tmp_path, "two")
    assert found["sessions"].ok is None and "only 2 at once" in found["sessions"].words
    assert found["speed"].ok is True
    shared_site.machine("nobody", shell="nologin")
    found = steps_over_ssh(shared_site, tmp_path, "nobody")
    assert list(found) == ["login", "shell"]
    assert "This account is currently not available" in found["shell"].words
    shared_site.machine("small", home_bytes=1 << 20)
    assert steps_over_ssh(shared_site, tmp_path, "small")["space"].ok is False


def test_over_ssh_a_login_that_fails_is_told(shared_site: MachineSite, tmp_path: Path) -> None:
    machine = shared_site.machine("rekeyed")
    machine.new_host_key()
    machine.kill_sshd()
    machine.restart_sshd()
    found = steps_over_ssh(shared_site, tmp_path, "rekeyed")
    assert list(found) == ["login"] and found["login"].ok is False and "key" in found["login"].words
