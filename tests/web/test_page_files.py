"""The files of the page: what is built is served compressed with the right types, and nothing else is."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from tests.web.broker_fixture import BrokerFixture, play
from tests.web.browser import Browser

from grassq.web.page.files import PageFiles

SCRIPT = b"export const x = 1;\n" * 100
SHELL = b"<!doctype html><title>Grass</title>"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A page as Vite builds one, and files beside it that are no part of it."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(SHELL)
    (folder / "icon.svg").write_bytes(b"<svg/>")
    (folder / "assets" / "index-BQ8xY2a1.js").write_bytes(SCRIPT)
    (folder / "assets" / "index-Ca9_-xYz.css").write_bytes(b"a{}")
    (folder / "assets" / "secret.py").write_bytes(b"no")
    (tmp_path / "beside.txt").write_bytes(b"no")
    (folder / "assets" / "link.txt").symlink_to(tmp_path / "beside.txt")
    return folder


def test_the_built_page_is_served_with_types_caches_and_compression(built: Path) -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = Browser(fixture)
        for path in ("/", "/jobs", "/jobs/42", "/sweeps/lr", "/machines", "/queues", "/new", "/access", "/gpupeasy/x"):
            answer = await page.ask("GET", path)
            assert (answer.status, answer.body) == (200, SHELL)
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["cache-control"] == "no-cache"
        for path in ("/nosuch", "/job/3"):
            answer = await page.ask("GET", path, Accept="text/html")
            assert (answer.status, answer.body) == (404, SHELL), "the page itself says that there is nothing"
            assert b"Not Found" in (await page.ask("GET", path)).body, "a program reads words"
        tag = (await page.ask("GET", "/")).headers["etag"]
        assert (await page.ask("GET", "/jobs", If_None_Match=tag)).status == 304
        script = await page.ask("GET", "/assets/index-BQ8xY2a1.js", Accept_Encoding="gzip, br")
        assert gzip.decompress(script.body) == SCRIPT and len(script.body) < len(SCRIPT) / 4
        assert script.headers["content-encoding"] == "gzip" and "immutable" in script.headers["cache-control"]
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert (await page.ask("GET", "/assets/index-BQ8xY2a1.js")).body == SCRIPT
        assert (await page.ask("GET", "/assets/index-Ca9_-xYz.css")).headers["content-type"].startswith("text/css")
        assert (await page.ask("GET", "/icon.svg")).headers["content-type"] == "image/svg+xml"

    play(test, pages=PageFiles(built))


@pytest.mark.parametrize(
    "path",
    [
        "/assets/secret.py",
        "/assets/link.txt",
        "/assets/..%2fbeside.txt",
        "/assets/%2e%2e%2f%2e%2e%2fbeside.txt",
        "/assets/..%5cbeside.txt",
        "/assets/%00",
        "/assets/nosuch-12345678.js",
        "/beside.txt",
        "/..%2fbeside.txt",
        "/assets/../../beside.txt",
        "//etc/passwd",
        "/index.html%00.svg",
    ],
)
def test_nothing_beside_the_page_is_served(built: Path, path: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await Browser(fixture).ask("GET", path)
        assert 400 <= answer.status < 500 and answer.body != b"no"

    play(test, pages=PageFiles(built))


def test_a_page_that_is_built_anew_is_read_anew_and_without_one_words_say_what_to_do(built: Path) -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = Browser(fixture)
        assert (await page.ask("GET", "/")).body == SHELL
        (built / "index.html").write_bytes(b"new")
        os.utime(built / "index.html", ns=(1, 1))
        assert (await page.ask("GET", "/")).body == b"new"
        (built / "index.html").unlink()
        answer = await page.ask("GET", "/jobs/3")
        assert answer.status == 503 and answer.headers["content-type"].startswith("text/plain")
        assert b"npm" in answer.body and b"grass top" in answer.body

    play(test, pages=PageFiles(built))
