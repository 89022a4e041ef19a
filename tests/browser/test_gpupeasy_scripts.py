"""GPUPeasy's two programs and a browser: the link of startgui.py opens the lists of what startserver.py was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect
from tests.browser.browsing import PageWatch
from tests.compat.peasy import Peasy
from tests.e2e.world import free_port

LISTS = ("Device Utilization", "Scheduled Jobs", "Successful Jobs", "Failed Jobs")


@pytest.fixture
def peasy(tmp_path: Path, built_page: None) -> Iterator[Peasy]:
    """GPUPeasy in a home of its own; nothing runs yet."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    world = Peasy(tmp_path / "home", cwd)
    yield world
    world.close()


def test_the_link_opens_the_four_lists_and_the_page_ends_with_its_program(
    peasy: Peasy, contexts: Callable[..., BrowserContext]
) -> None:
    peasy.serve("--devices", "0", "1")
    gate, port = peasy.add_gated("first"), free_port()
    peasy.reaches(gate, "Running")
    gui = peasy.serve(script="startgui.py", port=port)
    assert gui.stdout is not None
    link = gui.stdout.readline().strip()
    page = contexts().new_page()
    watch = PageWatch(page, f"http://127.0.0.1:{port}")
    page.goto(link)
    page.locator(".connection.live").wait_for()
    assert "/gpupeasy" in page.url and "code" not in page.url
    lists = {name: page.get_by_role("region", name=name) for name in LISTS}
    expect(lists["Device Utilization"].locator("tbody tr", has_text="first")).to_have_count(1)
    # What a program adds at GPUPeasy's own port shows in the page by itself.
    done = peasy.add("<b>second<i>", "second.out", "true")
    expect(lists["Successful Jobs"].locator("tbody tr", has_text="second")).to_have_count(1)
    peasy.reaches(done, "Succeeded")
    peasy.open_gate("first")
    expect(lists["Successful Jobs"].locator("tbody tr", has_text="first")).to_have_count(1)
    watch.check()
    peasy.end(gui)
    expect(page.locator(".connection.live")).to_have_count(0)
