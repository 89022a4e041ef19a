"""The wrapper of a command, in every shell that may run it: it makes the environment that a job asks for."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grassq.run.wrapper import wrapped

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
SOON_S = 30.0


class Stage:
    """A machine with a folder of setups, and a job's directory."""

    def __init__(self, path: Path, shell: list[str]) -> None:
        self.path, self.shell = path, shell
        self.tree, self.setups, self.run_dir = path / "tree", path / "se tups", path / "run"
        for folder in (self.tree, self.run_dir):
            folder.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(path), "COUNT": str(path / "count")}

    def start(self, *command: str, login: dict[bytes, bytes] | None = None, **asked: Any) -> subprocess.Popen[str]:
        """Start a command in the wrapper."""
        wanted = {name: os.fsencode(value) for name, value in asked.items() if name != "files"}
        files = [os.fsencode(name) for name in asked.get("files", ())]
        words = [os.fsencode(word) for word in command]
        here, there = os.fsencode(self.run_dir), os.fsencode(self.setups)
        (_, *argv), env = wrapped(words, here, there, files=files, login=login, **wanted)
        return subprocess.Popen(
            [*self.shell, *argv],
            cwd=self.tree,
            env={**{os.fsencode(k): os.fsencode(v) for k, v in self.env.items()}, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, **asked: Any) -> tuple[int, str, str]:
        """Run a command in the wrapper; return its exit code, stdout and stderr."""
        process = self.start(*command, **asked)
        out, err = process.communicate(timeout=SOON_S)
        return process.returncode, out, err

    @property
    def count(self) -> int:
        """How often a setup that adds a line to $COUNT was run."""
        file = Path(self.env["COUNT"])
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def unstarted(self) -> str:
        """What the run dir says about a command that did not start."""
        return (self.run_dir / "unstarted").read_text()


@pytest.fixture(params=SHELLS)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    shell = SHELLS[request.param]
    if shutil.which(shell[0]) is None:
        pytest.skip(f"there is no {shell[0]} here")
    return Stage(tmp_path, shell)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


VENV = "mkdir -p .venv/bin && printf '#!/bin/sh\\necho made by the setup\\n' >.venv/bin/tool && chmod +x .venv/bin/tool"
COUNTED = f"echo run >>$COUNT && {VENV}"


def test_the_command_gets_its_words_its_code_and_the_environment(stage: Stage) -> None:
    stage.env |= {"grass_x": "1", "file": "a b"}
    code, out, _ = stage.run("sh", "-c", 'printf "[%s]" "$@" "$file"; exit 7', "0", "", "a b", "'\n", setup=VENV)
    assert (code, out) == (7, "[][a b]['\n][a b]")


def test_a_setup_runs_once_and_its_programs_come_first(stage: Stage) -> None:
    for _ in range(3):
        code, out, err = stage.run("sh", "-c", 'tool; echo "$VIRTUAL_ENV"', setup=COUNTED)
        assert code == 0, err
        said, venv = out.splitlines()
        assert said == "made by the setup" and venv.startswith(str(stage.setups)) and venv.endswith("/.venv")
    assert stage.count == 1


def test_a_setup_sees_the_files_it_reads_and_runs_anew_when_one_changes(stage: Stage) -> None:
    (stage.tree / "requirements.txt").write_text("a\n")
    (stage.tree / "uv.lock").write_text("lock\n")
    (stage.tree / "train.py").write_text("1\n")
    setup = "echo run >>$COUNT; cat requirements.txt uv.lock >seen; test ! -e train.py"
    command = ("sh", "-c", 'cat "$GRASS_SETUP_DIR/seen"')
    assert stage.run(*command, setup=setup)[:2] == (0, "a\nlock\n")
    (stage.tree / "train.py").write_text("2\n")
    stage.run(*command, setup=setup)
    assert stage.count == 1, "no file of the setup has changed"
    (stage.tree / "requirements.txt").write_text("b\n")
    assert stage.run(*command, setup=setup)[:2] == (0, "b\nlock\n")
    (stage.tree / "requirements-dev.txt").write_text("")
    stage.run(*command, setup=setup)
    assert stage.count == 3, "a file more is a change too"
    (stage.tree / "requirements-dev.txt").unlink()
    (stage.tree / "requirements.txt").write_text("a\n")
    assert stage.run(*command, setup=setup)[:2] == (0, "a\nlock\n")
    assert stage.count == 3, "the first setup is still there"


def test_named_files_replace_the_usual_ones(stage: Stage) -> None:
    (stage.tree / "uv.lock").write_text("1")
    (stage.tree / "deep er").mkdir()
    (stage.tree / "deep er" / "-x").write_text("1")
    asked = {"setup": "echo run >>$COUNT; test ! -e uv.lock && cat 'deep er/-x' >y", "files": ["deep er/-x"]}
    assert stage.run("true", **asked)[0] == 0
    (stage.tree / "uv.lock").write_text("2")
    assert stage.run("true", **asked)[0] == 0
    assert stage.count == 1
    (stage.tree / "deep er" / "-x").write_text("2")
    stage.run("true", **asked)
    assert stage.count == 2


def test_a_named_file_that_is_missing_is_said(stage: Stage) -> None:
    code, _, err = stage.run("true", setup="true", files=["nope.txt"])
    assert code == 127 and "there is no file nope.txt" in err
    assert stage.unstarted.startswith("there is no file nope.txt")


def test_another_line_or_another_python_is_another_setup(stage: Stage) -> None:
    stage.run("true", setup=COUNTED)
    stage.run("true", setup=COUNTED + " ")
    stage.run("true", setup=COUNTED, python=sys.executable)
    assert stage.count == 3


def test_two_jobs_at_once_run_a_setup_once(stage: Stage) -> None:
    gate = stage.path / "gate"
    stage.env["GATE"] = str(gate)
    setup = f'while [ ! -e "$GATE" ]; do sleep 0.05; done; {COUNTED}'
    jobs = [stage.start("tool", setup=setup) for _ in range(3)]
    until(lambda: len(list(stage.setups.glob("*/claim.1"))) == 1)
    gate.touch()
    for job in jobs:
        out, err = job.communicate(timeout=SOON_S)
        assert (job.returncode, out) == (0, "made by the setup\n"), err
    assert stage.count == 1


def test_a_setup_that_was_killed_half_way_is_not_taken_as_done(stage: Stage) -> None:
    gate = stage.path / "gate"
    stage.env["GATE"] = str(gate)
    setup = f'{COUNTED}; touch half; while [ ! -e "$GATE" ]; do sleep 0.05; done'
    first = stage.start("tool", setup=setup)
    until(lambda: list(stage.setups.glob("*/1/half")))
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(timeout=SOON_S)
    gate.touch()
    assert stage.run("tool", setup=setup)[:2] == (0, "made by the setup\n")
    assert stage.count == 2
    assert not list(stage.setups.glob("*/1")), "what the killed setup left is removed"


def test_a_failed_setup_is_said_with_its_output_and_is_tried_again_by_the_next_job(stage: Stage) -> None:
    setup = "echo run >>$COUNT; echo why it fails; exit 3"
    code, out, err = stage.run("true", setup=setup)
    assert code == 127 and out == "why it fails\n"
    assert f"grass: the setup failed with exit code 3: {setup}" in err
    assert stage.unstarted.startswith("the setup failed with exit code 3")
    assert stage.run("true", setup=setup)[0] == 127
    assert stage.count == 2


def test_a_command_that_is_nowhere_is_said(stage: Stage) -> None:
    assert stage.run("no-such-program", setup="true")[0] == 127
    assert stage.unstarted == "cannot start: there is no program no-such-program on the job's PATH\n"


def test_a_python_is_a_program_or_a_folder_and_comes_first(stage: Stage) -> None:
    venv = stage.path / "my env"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    (venv / "bin" / "python").write_text("#!/bin/sh\necho mine\n")
    (venv / "bin" / "python").chmod(0o755)
    stage.env["VIRTUAL_ENV"] = "/another"
    show = ("sh", "-c", 'python; echo "$VIRTUAL_ENV"; echo "$GRASS_PYTHON"')
    for typed in (venv, venv / "bin" / "python", "~/my env", "../my env"):
        code, out, err = stage.run(*show, python=str(typed))
        assert (code, out.splitlines()[0]) == (0, "mine"), err
        assert out.splitlines()[1].endswith("my env") and out.splitlines()[2].endswith("my env/bin/python")
    other = stage.path / "bin" / "python9"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    stage.env["PATH"] += f":{other.parent}"
    out = stage.run("sh", "-c", 'echo "$GRASS_PYTHON:$VIRTUAL_ENV"', python="python9")[1]
    assert out == f"{other}:\n", "a program on the PATH, in no virtual environment"


def test_a_python_that_is_nowhere_is_said(stage: Stage) -> None:
    assert stage.run("true", python="/no/python")[0] == 127
    assert stage.unstarted == "there is no Python /no/python on this machine\n"
    assert stage.run("true", python=str(stage.tree))[0] == 127
    assert "there is no Python in the folder" in stage.unstarted


@pytest.mark.parametrize("login", ["sh", "bash", "fish", "tcsh"])
def test_a_login_shell_gives_its_environment_and_does_not_replace_the_jobs_variables(stage: Stage, login: str) -> None:
    if (shell := shutil.which(login)) is None:
        pytest.skip(f"there is no {login} here")
    stage.env |= {"SHELL": shell}
    (stage.path / ".profile").write_text("echo noise; export FROM_LOGIN=yes OWN=theirs PATH=/opt/tools:$PATH\n")
    (stage.path / ".tcshrc").write_text("echo noise; setenv FROM_LOGIN yes; setenv OWN theirs\n")
    (stage.path / ".config/fish").mkdir(parents=True)
    (stage.path / ".config/fish/config.fish").write_text("echo noise; set -x FROM_LOGIN yes; set -x OWN theirs\n")
    show = ("sh", "-c", 'printf "[%s]" "$FROM_LOGIN" "$OWN" "$1" "$GRASS_WRAPPER"', "0", "it's\n$HOME")
    code, out, err = stage.run(*show, login={b"OWN": b"mine, 'quoted'\n", b"not-a-name": b""})
    assert code == 0, err
    assert out == "noise\n[yes][mine, 'quoted'\n][it's\n$HOME][]"
