"""Other pages in the same browser: they change nothing, read nothing, and cannot show our page inside of theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from bench.chromium import launch
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.browser.browsing import Site, wait_for

Contexts = Callable[..., BrowserContext]

#: What a foreign page tries, with the cookie of our page wherever the browser sends it. It returns what it got.
ATTACK = """async ({origin, paths}) => {
  const got = [];
  const key = "0123456789abcdef0123456789abcdef";
  for (const path of paths)
    for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"])
      for (const mode of ["cors", "no-cors"]) {
        if (mode === "no-cors" && !["GET", "HEAD", "POST"].includes(method)) continue;
        const body = method === "POST" ? JSON.stringify({key, words: ["touch", "taken"], queue: null}) : undefined;
        try {
          const answer = await fetch(origin + path, {method, mode, body, credentials: "include"});
          if (answer.type !== "opaque") got.push(`${method} ${path}: ${answer.status}`);
        } catch { /* refused */ }
      }
  const opened = await new Promise((done) => {
    const socket = new WebSocket(origin.replace("http", "ws") + "/v1/live");
    socket.onopen = () => done(true);
    socket.onerror = () => done(false);
  });
  if (opened) got.push("WebSocket");
  for (const name of ["img", "script", "link"]) {
    const loaded = await new Promise((done) => {
      const element = document.createElement(name);
      element.onload = () => done(true);
      element.onerror = () => done(false);
      if (name === "link") { element.rel = "stylesheet"; element.href = origin + "/v1/show"; }
      else element.src = origin + (name === "img" ? "/icon.svg" : "/v1/show");
      document.head.append(element);
    });
    if (loaded) got.push(name);
  }
  const form = document.createElement("form");
  form.method = "POST";
  form.action = origin + "/v1/pause";
  form.target = "hidden";
  const frame = document.createElement("iframe");
  frame.name = "hidden";
  document.body.append(form, frame);
  await new Promise((done) => { frame.onload = done; form.submit(); });
  return got;
}"""


@pytest.fixture
def evil() -> Iterator[int]:
    """A web server of somebody else on this machine; returns its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>evil</title><body></body>")

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_code_of_a_link_stays_nowhere_and_no_script_sees_the_cookie(site: Site, contexts: Contexts) -> None:
    page = contexts().new_page()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.url} {request.headers.get('referer', '')}"))
    link = site.link()
    code = link.partition("#code=")[2]
    page.goto(link)
    page.locator(".connection.live").wait_for()
    assert code not in page.url and "#" not in page.url
    assert code.partition(".")[2] not in str(sent)
    assert page.evaluate("document.cookie") == ""
    assert code not in page.evaluate("JSON.stringify([history.state, {...localStorage}, {...sessionStorage}])")
    page.go_back()
    assert code not in page.url
    other = contexts().new_page()
    other.goto(link)
    other.get_by_role("button", name="Log in").wait_for()  # the link works once
    expect(other.locator("main")).to_contain_text("used")


def test_a_foreign_page_changes_nothing_and_reads_nothing(site: Site, contexts: Contexts, evil: int) -> None:
    context = contexts()
    ours = context.new_page()
    site.log_in(ours)
    routes = ["/", "/v1/show", "/v1/jobs", "/v1/session", "/v1/enqueue", "/v1/pause", "/v1/tokens", "/v1/session/end"]
    before = site.grass.json("show", "all")["jobs"]
    assert ours.evaluate("fetch('/v1/show', {credentials: 'include'}).then((answer) => answer.status)") == 200
    # Another port of the same host gets the same cookies; another host is another site.
    for host in ("127.0.0.1", "localhost"):
        page = context.new_page()
        page.goto(f"http://{host}:{evil}/")
        assert page.evaluate(ATTACK, {"origin": site.origin, "paths": routes}) == []
        _cannot_frame(page, site.origin)
        page.close()
    assert site.grass.json("show", "all")["jobs"] == before and not site.grass.json("show")["paused"]
    entries = site.grass.json("audit", "--last", "500")["entries"]
    done = {each["path"] for each in entries if each["result"].startswith("200") and each["peer"] != "local"}
    assert done <= {"/v1/session"}
    ours.reload()
    ours.locator(".connection.live").wait_for()


def test_a_link_on_another_site_opens_the_page_with_its_session(site: Site, contexts: Contexts, evil: int) -> None:
    context = contexts()
    site.log_in(context.new_page())
    page = context.new_page()
    page.goto(f"http://localhost:{evil}/")
    page.set_content(f"<a href='{site.origin}/jobs'>look</a>")
    page.click("a")
    page.locator(".connection.live").wait_for()
    assert page.url == f"{site.origin}/jobs"


def test_a_name_that_is_turned_to_this_machine_gets_nothing(site: Site, browser: Browser) -> None:
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    other = launch(browser.browser_type, rules)
    try:
        page = other.new_page()
        port = urlsplit(site.origin).port
        answer = page.goto(f"http://evil.example:{port}/")
        assert answer is not None and answer.status == 421
        statuses = page.evaluate(
            """async () => { const all = [];
            for (const path of ["/v1/show", "/v1/session", "/openapi.json"])
              for (const method of ["GET", "POST", "DELETE"])
                all.push((await fetch(path, {method})).status);
            return all; }"""
        )
        assert set(statuses) <= {401, 421}
    finally:
        other.close()


def test_logout_ends_the_page_at_once_in_every_tab(site: Site, contexts: Contexts) -> None:
    context = contexts()
    first, second = context.new_page(), context.new_page()
    site.log_in(first)
    site.open(second, "/jobs")
    site.grass.ok("web", "--logout-all")
    for page in (first, second):
        page.get_by_role("button", name="Log in").wait_for()


def _cannot_frame(page: Page, origin: str) -> None:
    """Try to show our page in a frame of another page."""
    refused: list[int] = []
    page.on("response", lambda answer: refused.append(answer.status) if answer.url.startswith(origin) else None)
    page.evaluate(
        """(origin) => new Promise((done) => { const frame = document.createElement("iframe");
        frame.onload = done; frame.src = origin + "/"; document.body.append(frame); })""",
        origin,
    )
    assert set(wait_for(page, lambda: refused, "the answer to the frame")) <= {403, 421}
