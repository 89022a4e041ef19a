"""A manifest names exactly one tree, and never a path outside of it."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.errors import BadInput
from grassq.files import manifest as manifests
from grassq.files.manifest import FILE, FOLDER, LINK, PROGRAM, Entry, Manifest, leaves, parse

HASH = hashlib.sha256(b"x").hexdigest()

names = st.binary(min_size=1, max_size=8).filter(
    lambda name: name not in (b".", b"..") and b"/" not in name and b"\0" not in name
)


@st.composite
def trees(draw: st.DrawFn) -> dict[bytes, Entry]:
    """Entries of a tree in which every path has its folder."""
    found: dict[bytes, Entry] = {}
    folders = [b""]
    for _ in range(draw(st.integers(0, 12))):
        folder = draw(st.sampled_from(folders))
        name = draw(names)
        path = folder + b"/" + name if folder else name
        if path in found:
            continue
        kind = draw(st.sampled_from((FOLDER, FILE, PROGRAM, LINK)))
        if kind == FOLDER:
            folders.append(path)
            found[path] = Entry(path, kind)
        elif kind == LINK:
            found[path] = Entry(path, kind, target=draw(names))
        else:
            found[path] = Entry(path, kind, draw(st.integers(0, 10**9)), HASH)
    return found


@given(trees())
def test_a_text_and_its_manifest_are_the_same(tree: dict[bytes, Entry]) -> None:
    found = Manifest(tree.values())
    again = parse(found.text)
    assert again.entries == found.entries
    assert again.id == found.id == hashlib.sha256(found.text).hexdigest()


@given(trees(), st.randoms())
def test_the_order_of_entries_does_not_matter(tree: dict[bytes, Entry], rng: object) -> None:
    entries = list(tree.values())
    shuffled = sorted(entries, key=lambda _: rng.random())  # type: ignore[attr-defined]
    assert Manifest(shuffled).id == Manifest(entries).id


@given(trees(), trees())
def test_different_trees_have_different_ids(one: dict[bytes, Entry], other: dict[bytes, Entry]) -> None:
    assert (Manifest(one.values()).id == Manifest(other.values()).id) == (one == other)


@given(trees(), st.data())
def test_a_damaged_text_is_refused_or_names_another_tree(tree: dict[bytes, Entry], data: st.DataObject) -> None:
    text = Manifest(tree.values()).text
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.binary(max_size=3)) + text[at + 1 :]
    with suppress(BadInput):
        assert parse(damaged).text == damaged


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"grass tree 1",
        b"grass tree 2\n",
        b"grass tree 1\nd a",
        b"grass tree 1\nd %61\n",  # `a`, but not in its one form
        b"grass tree 1\nd b\nd a\n",
        b"grass tree 1\nd a\nd a\n",
        b"grass tree 1\nd a/b\n",
        b"grass tree 1\nd ..\n",
        b"grass tree 1\nd /a\n",
        b"grass tree 1\nd a//b\n",
        b"grass tree 1\nd a%00b\n",
        b"grass tree 1\nf %s 01 a\n" % HASH.encode(),
        b"grass tree 1\nf %s -1 a\n" % HASH.encode(),
        b"grass tree 1\nf %s 1 a\n" % HASH.upper().encode(),
        b"grass tree 1\nf %s 1 a\nf %s 1 a/b\n" % (HASH.encode(), HASH.encode()),
        b"grass tree 1\nl a ..\n",
        b"grass tree 1\nl a /etc\n",
        b"grass tree 1\nl a \n",
        b"grass tree 1\nq a\n",
        b"grass tree 1\n\n",
        b"grass tree 1\nd " + b"a" * 256 + b"\n",
    ],
)
def test_a_text_that_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(BadInput):
        parse(text)


def test_a_tree_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "ENTRIES_MAX", 3)
    with pytest.raises(BadInput, match="more than 3 files"):
        Manifest(Entry(b"%d" % number, FOLDER) for number in range(4))
    with pytest.raises(BadInput, match="GiB"):
        Manifest([Entry(b"a", FILE, manifests.BYTES_MAX + 1, HASH)])
    deep = [Entry(b"/".join([b"d"] * depth), FOLDER) for depth in range(1, 131)]
    monkeypatch.setattr(manifests, "ENTRIES_MAX", 1000)
    with pytest.raises(BadInput, match="deeper than 128"):
        Manifest(deep)


links = st.lists(
    st.tuples(
        st.sampled_from([b"l", b"a/l", b"a/b/l", b"a/b/m", b"m"]),
        st.lists(st.sampled_from([b"..", b"a", b"b", b"l", b"m", b"."]), min_size=1, max_size=5),
    ),
    max_size=4,
)


@given(links)
def test_a_link_stays_exactly_if_the_kernel_stays(
    tmp_path_factory: pytest.TempPathFactory, given_links: object
) -> None:
    """The kernel follows links in a folder whose parents are marked: what it finds outside must have been refused."""
    top = tmp_path_factory.mktemp("links")
    root = top / "root"
    (root / "a" / "b").mkdir(parents=True)
    by_path = {path: Entry(path, FOLDER) for path in (b"a", b"a/b")}
    for path, parts in given_links:  # type: ignore[attr-defined]
        if path not in by_path:
            by_path[path] = Entry(path, LINK, target=b"/".join(parts))
            os.symlink(by_path[path].target, os.fsencode(root) + b"/" + path)
    for entry in by_path.values():
        if entry.kind == LINK and not leaves(entry.path, entry.target, by_path):
            try:
                real = Path(os.fsdecode(os.fsencode(root) + b"/" + entry.path)).resolve(strict=True)
            except (OSError, RuntimeError):
                continue  # it leads nowhere
            assert real.is_relative_to(root)
