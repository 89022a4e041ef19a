"""docs/howto/machines-over-ssh.md, as it is typed, with machines of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, PageRunner, sections
from tests.machines.site import MachineSite

FILE = ROOT / "docs" / "howto" / "machines-over-ssh.md"
PAGE = sections(FILE)


@pytest.fixture
def desk(tmp_path: Path, site: MachineSite) -> Iterator[PageRunner]:
    """A user whose ssh knows gpu1 and gpu2."""
    for name in ("gpu1", "gpu2"):
        site.machine(name)
    desk = PageRunner(tmp_path / "desk", Path(sys.executable).parent)
    desk.env["GRASS_SSH"] = str(site.ssh)
    yield desk
    desk.close()


def test_every_command_of_the_page_works_as_typed(desk: PageRunner) -> None:
    for blocks in PAGE.values():
        for block in blocks:
            assert block.kind == "console", block
            desk.run(block)


def test_every_message_that_the_page_explains_is_said_by_grass() -> None:
    table = FILE.read_text().partition("## Troubles\n")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `([^`]*)` \|", table, re.MULTILINE)
    assert len(messages) > 8
    source = "".join(path.read_text() for path in (ROOT / "src" / "grassq").rglob("*.py"))
    assert [each for each in messages for part in each.split("...") if part.strip() not in source] == []
