from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for folder in ("docs", "bench", "examples") for page in (ROOT / folder).rglob("*.md"))]
)
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
WORDS = re.findall(r"^- \*\*(.+?)\*\*: .+$", GLOSSARY, re.MULTILINE)
#: One word per concept: every one of these has its line.
# fmt: off
EXPECTED = [
    "job", "spec", "attempt", "queue", "offer", "slot", "resource", "amount", "device", "pool", "request", "capacity",
    "limit", "allocation", "worker", "machine", "broker", "daemon", "store", "board", "shape", "plan", "placement",
    "head", "order", "report", "event", "outcome", "sweep", "shim", "launcher", "run dir", "pilot", "selector",
]
# fmt: on

_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:src|tests|docs|examples|bench|bin|\.ci)/[\w./-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(_prose(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path) if path else page
        assert found.exists(), f"{target}: there is no such file"
        assert not anchor or anchor in _anchors(found), f"{target}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_a_page_names_is_there(page: Path) -> None:
    for path in _PATH.findall(page.read_text()):
        assert (ROOT / path).exists(), f"{path}: there is no such file"


def test_every_file_of_the_walk_through_an_enqueue_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    names = set(re.findall(r"`((?:cli|core|web|broker|worker|run|net|store)/\w+\.py)`", text))
    assert names
    assert [name for name in sorted(names) if not (ROOT / "src" / "grassq" / name).exists()] == []


def test_the_glossary_has_every_word_once() -> None:
    assert len(set(WORDS)) == len(WORDS)
    assert set(EXPECTED) <= set(WORDS)


def test_words_in_italics_in_the_glossary_are_explained_there() -> None:
    used = {word for word in re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", GLOSSARY) if word != "italics"}
    assert [word for word in sorted(used) if not _known(word)] == []


def test_every_decision_has_a_number_of_its_own_and_its_four_parts() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [page.name[:3] for page in decisions]
    assert numbers == [f"{number:03}" for number in range(1, len(numbers) + 1)]
    for page in decisions:
        text = page.read_text()
        assert text.startswith(f"# {page.name[:3]}: ")
        assert "**Rejected.**" in text, f"{page.name} names no alternative"


def test_every_make_target_is_in_contributing() -> None:
    targets = re.findall(r"^([a-z0-9]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [target for target in targets if target != "help" and f"`make {target}`" not in text] == []


def _prose(page: Path) -> str:
    """A page without its fenced blocks, whose brackets are no links."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _known(word: str) -> bool:
    return word in WORDS or (word.endswith("s") and word[:-1] in WORDS)
