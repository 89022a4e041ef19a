"""The script of the far side: one text of several parts, that every POSIX shell reads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from grassq.machines.far import script, shim_bundle


def test_no_function_is_defined_twice() -> None:
    names = Counter(re.findall(rb"^(\w+)\(\)", script.text(), re.MULTILINE))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_part_is_in_the_script() -> None:
    parts = {each.name for each in resources.files("grassq.machines.far").iterdir() if each.name.endswith(".sh")}
    assert parts == set(script.PARTS)


@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"], ["busybox", "sh"]], ids=" ".join)
def test_every_shell_reads_the_script(shell: list[str]) -> None:
    subprocess.run([*shell, "-n"], input=script.text(), check=True)


def test_the_bundle_of_the_shim_has_every_module_that_it_needs(tmp_path: Path) -> None:
    file = tmp_path / shim_bundle.name()
    file.write_bytes(shim_bundle.text())
    code = f"""
import runpy, sys
try:
    sys.argv = ["shim", "check"]
    runpy.run_path({str(file)!r})
finally:
    print(sorted(name[7:] for name in sys.modules if name.startswith("grassq.") and name.count(".") > 0))
"""
    found = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(found.stdout)) - {"core", "run", "run.limits", "run.suspension"}
    assert loaded == set(shim_bundle.MODULES), "no more, and no less"
