"""A daemon with its page, a browser that looks at it, and the few moves every test of the page makes with them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, FloatRect, Locator, Page, Request, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from tests.e2e.world import Env, Grass, Word, free_port

from grassq.home import Sender
from grassq.net.encoding import enqueue_body, new_key
from grassq.net.retry import exchange

#: Four devices of a machine that has none, and processors for small jobs.
CAPACITY = "{gpu: 4, cpu: 8, mem: 16000}"
DEADLINE_S = 20.0
#: How long two keys are given before they are pressed again.
PRESSED_MS = 5_000
#: What a page that breaks its policy says; it becomes an error of the console, which fails the test.
HEAR_POLICY = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} forbids ${event.blockedURI} ${event.sourceFile}`));"""
#: The umask of jobs.
UMASK = 0o022
WIDE, PHONE = (1280, 800), (390, 844)

# Playwright would wait for 5 s only: a page alone waits for as long before it dials a lost daemon again.
expect.set_options(timeout=DEADLINE_S * 1000)

T = TypeVar("T")


class PageWatch:
    """Everything that a page must not do, gathered while it is open."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self._origin = origin
        #: Complaints that a test expects, such as the refusal of a request that it provokes.
        self.expected: list[str] = []
        self.complaints: list[str] = []
        page.add_init_script(HEAR_POLICY)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"script error: {error}"))
        page.on("request", self._see)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text}")

    def _see(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self._origin).netloc and not request.url.startswith("data:"):
            self.complaints.append(f"request elsewhere: {request.url}")

    def check(self) -> None:
        """Fail if the page has done something that a test did not expect."""
        left = [each for each in self.complaints if not any(words in each for words in self.expected)]
        assert not left, left


class QuickGrass(Grass):
    """Grass whose jobs are submitted by the request that the command line makes, without a process for each."""

    def enqueue(self, *words: Word, cwd: Path | None = None, env: Env | None = None) -> int:
        """Submit a job; its id."""
        variables = {os.fsencode(name): os.fsencode(value) for name, value in {**self.env, **(env or {})}.items()}
        sender = Sender(os.fsencode(cwd or self.cwd), variables, UMASK)
        body = enqueue_body([b"-q", *map(os.fsencode, words)], sender, new_key())
        response = exchange(str(self.home), "POST", "/v1/enqueue", body, autostart=False)
        assert response.headers.get("grass-exit") == "0", response.body
        return int(response.body[: int(response.headers["grass-stdout"])])


class Site:
    """One user's Grass with its web page."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.grass = QuickGrass(home, cwd)
        # A port of its own: the usual one may be taken by another test while the daemon of this one is killed.
        self.grass.env |= {"GRASS_CAPACITY": CAPACITY, "GRASS_WEB_PORT": str(free_port())}
        # The command starts the daemon.
        self.origin = self._origin_of(self.grass.json("web", "--no-open")["url"])

    def link(self, scope: str | None = None) -> str:
        """Return a new login link, as `grass web` makes it."""
        with self.grass.client() as client:
            answer = client.change("session/link", scope=scope, cwd=str(self.grass.cwd))
        return f"{self.origin}/#code={answer['code']}"

    def log_in(self, page: Page, scope: str | None = None, path: str = "/") -> None:
        """Log in by a link, at an address of the page."""
        link = self.link(scope)
        page.goto(self.origin + path + link[link.index("#") :])
        page.locator(".connection.live").wait_for()

    def open(self, page: Page, path: str) -> None:
        """Open an address of the page, in a browser that is logged in."""
        page.goto(self.origin + path)
        page.locator(".connection.live").wait_for()

    def close(self) -> None:
        """End everything of this home."""
        self.grass.close()

    @staticmethod
    def _origin_of(link: str) -> str:
        parts = urlsplit(link)
        return f"{parts.scheme}://{parts.netloc}"


def new_context(browser: Browser, size: tuple[int, int] = WIDE, **options: Any) -> BrowserContext:
    """Return a browser without a history, with a window of a size."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(DEADLINE_S * 1000)
    return context


def wait_for(page: Page, condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Wait until something holds in the page; the page goes on meanwhile."""
    deadline = time.monotonic() + deadline_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {deadline_s} s"
        page.wait_for_timeout(10)
    return found


def press_both(page: Page, first: str, second: str, sign: Locator) -> None:
    """Press two keys until they show a sign: a page that stalls between them hears two single keys."""

    def is_shown() -> bool:
        page.keyboard.press(first)
        page.keyboard.press(second)
        try:
            sign.wait_for(timeout=PRESSED_MS)
        except PlaywrightTimeout:
            return False
        return True

    wait_for(page, is_shown, f"{first} {second}")


def still_box(page: Page, part: Locator) -> FloatRect:
    """Wait until a part of the page stays where it is, and return its place: a layout may follow a size later."""
    boxes: list[FloatRect | None] = [None]

    def is_still() -> bool:
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        boxes.append(part.bounding_box())
        return boxes[-1] is not None and boxes[-1] == boxes[-2]

    wait_for(page, is_still, "the part of the page stays where it is")
    found = boxes[-1]
    assert found is not None
    return found


def fits(page: Page, where: str = "the page") -> None:
    """Wait until nothing is wider than the window; the layout follows a new size a little later."""
    wait_for(
        page,
        lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"),
        f"{where} is as wide as the window",
    )


def axe(page: Page, where: str = "the page", rules: Sequence[str] = ()) -> None:
    """Check what screen readers and people with weak eyes meet, by all rules or some; fail for a serious finding."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"], **({"runOnly": [*rules]} if rules else {})}
    violations = page.evaluate("(options) => axe.run(options).then((results) => results.violations)", options)
    found = [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes']][:5]}"
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]
    assert not found, f"{where}: {found}"


#: All nodes of the document: elements, texts and comments.
COUNT_NODES = """(() => { const walker = document.createTreeWalker(document); let count = 1;
  while (walker.nextNode()) count++; return count; })()"""


def measure(page: Page) -> dict[str, float]:
    """Return what the page costs now, after its rubbish was collected: bytes of memory, elements, listeners.

    `detached` counts nodes that live outside of the document: those that a script still holds, and the inner parts of
    form fields, which do not grow.
    """
    session = page.context.new_cdp_session(page)
    try:
        session.send("HeapProfiler.collectGarbage")
        session.send("Performance.enable")
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    finally:
        session.detach()
    return {
        "heap": metrics["JSHeapUsedSize"],
        "listeners": metrics["JSEventListeners"],
        "elements": page.evaluate("document.querySelectorAll('*').length"),
        "detached": metrics["Nodes"] - page.evaluate(COUNT_NODES),
    }
