"""Plain words: what docstrings and comments of the source, and the pages, must not do.

A docstring of a function begins with a verb. Things are named again instead of being called "who" or "those", and a
sentence is short enough to be read once.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])
#: A docstring of a function that begins with one of these has no verb in front.
# fmt: off
NO_VERB = frozenset({
    "what", "whether", "how", "where", "who", "whose", "whom", "why", "when", "which", "of", "those", "that", "these",
    "this", "it", "its", "the", "a", "an", "all", "every", "each", "one", "some", "no", "not", "nothing", "nobody",
    "somebody", "until", "as", "by", "for", "from", "in", "on", "to", "with", "without", "there",
})
# fmt: on
#: Words and phrases that make a reader ask "which one?".
VAGUE = re.compile(
    r"\b(whoever|whomever|so many|but for|that one|makes? no sense|who|whom|nobody|somebody|anybody)\b", re.I
)
#: The same for pages, which speak to people and of people.
VAGUE_ON_PAGES = re.compile(r"\b(whoever|whomever|so many|but for|that one|makes? no sense)\b", re.I)
#: What a message, a help line or a log line must not say.
ODD_IN_MESSAGES = re.compile(
    r"\b(whoever|so many|that one|makes? no sense|(?<!--)anew|never binds?|(?<!there )is no (?!longer))", re.I
)
SENTENCE_WORDS_MAX = 35


def docstrings(path: Path) -> Iterator[tuple[ast.AST, int, str]]:
    """Every docstring of a file, with its owner and line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node, getattr(node, "lineno", 1), text


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Every comment of a file, with its line."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a file with its line, except docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def is_property(node: ast.AST) -> bool:
    """A property is a noun, and so may its docstring be."""
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "src" / "grassq")))
def test_docstrings_of_functions_begin_with_a_verb(path: Path) -> None:
    wrong = []
    for node, line, text in docstrings(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_property(node):
            first = re.match(r"\W*([A-Za-z]+)", text)
            if first and first[1].lower() in NO_VERB:
                wrong.append(f"{line}: {text.splitlines()[0]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "src" / "grassq")))
def test_docstrings_and_comments_name_what_they_speak_of(path: Path) -> None:
    texts = [*comments(path), *((line, text) for _, line, text in docstrings(path))]
    wrong = [f"{line}: {found[0]!r} in {text}" for line, text in texts if (found := VAGUE.search(text))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "src" / "grassq")))
def test_messages_say_what_is_so_in_plain_words(path: Path) -> None:
    wrong = [f"{line}: {text}" for line, text in messages(path) if ODD_IN_MESSAGES.search(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "src" / "grassq")))
def test_sentences_of_docstrings_can_be_read_at_once(path: Path) -> None:
    wrong = [
        f"{line}: {sentence}"
        for _, line, text in docstrings(path)
        for sentence in re.split(r"(?<=[.:;!?])\s|\n\n|\n[ -]", text)
        if len(sentence.split()) > SENTENCE_WORDS_MAX
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_what_they_speak_of(page: Path) -> None:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    wrong = [f"{number}: {line}" for number, line in lines if VAGUE_ON_PAGES.search(line)]
    assert not wrong, "\n".join(wrong)
