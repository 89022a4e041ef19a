"""Links that are fetched stay below their target, whatever else is fetched to it before or after."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.errors import Refused
from grassq.files.place import Delivery, folders_above, leads_out, place

Links = dict[bytes, bytes]

deliveries = st.lists(
    st.dictionaries(
        st.sampled_from([b"l", b"m", b"a/l", b"a/b/l", b"a/b/m", b"c", b"c/l"]),
        st.lists(st.sampled_from([b"..", b"a", b"b", b"c", b"l", b"m", b".", b""]), min_size=1, max_size=6)
        .map(b"/".join)
        .filter(bool),
        max_size=4,
    ),
    min_size=1,
    max_size=3,
)


@given(deliveries)
def test_no_link_of_many_deliveries_leads_out(
    tmp_path_factory: pytest.TempPathFactory, given_links: list[Links]
) -> None:
    top = tmp_path_factory.mktemp("top")
    (top / "private").mkdir()
    into = top / "a" / "into"
    into.mkdir(parents=True)
    private = os.open(top / "private", os.O_RDONLY)
    try:
        for links in given_links:
            folders = folders_above(links)
            kept = {path: to for path, to in links.items() if not leads_out(path, to, folders)}
            with suppress(Refused):  # a folder is where a link was, or a link where a folder was
                place(private, os.fsencode(into), Delivery(sorted(folders), {}, kept))
    finally:
        os.close(private)
    for path in into.rglob("*"):
        if path.is_symlink():
            try:
                real = path.resolve(strict=True)
            except (OSError, RuntimeError):
                continue  # it leads nowhere
            assert real.is_relative_to(into)


@pytest.mark.parametrize(
    ("target", "leaves"),
    [
        (b"/etc", True),
        (b"../../x", True),
        (b"../x", False),
        (b"sub/../x", False),
        (b"file/../x", True),
        (b"sub/file/../x", True),
        (b"sub//.//../../x", False),
        (b"not/there", False),
    ],
)
def test_a_link_may_go_up_only_from_a_folder(target: bytes, leaves: bool) -> None:
    assert leads_out(b"d/link", target, {b"d", b"d/sub"}) == leaves
