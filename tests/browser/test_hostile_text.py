"""Text of others on every screen: it stays text, moves nothing around it, and asks nobody.

Our own daemon refuses most of these texts. The tests therefore put the texts into every answer and every message before
the page reads it, as a worker, a broker or a store could that somebody has taken over.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Dialog, Page, expect
from tests.browser.browsing import PageWatch, Site, fits
from tests.browser.screens import Jobs, walk

#: Markup, terminal sequences, characters that turn the direction of text, and others that nobody sees.
MARKUP = "<img src=x onerror=hacked=1><script>hacked=1</script><svg onload=hacked=1>'\"&lt;"
HIDDEN = "\u202ertl\u2066\u2069\u200f\x1b]0;title\x07\x1b[31mred\x85\u200b\ufeff"
EVIL = f" {MARKUP} javascript:hacked=1 {HIDDEN} {'w' * 300}"
#: The fields of documents that hold words of others.
FIELDS = {
    *("about", "by", "caller", "cause", "cwd", "detail", "error", "hint", "host", "label", "labels", "last_line"),
    *("machine", "message", "model", "name", "note", "notes", "output", "paused_by", "path", "peer", "prefix"),
    *("project", "queue", "queues", "reason", "sentence", "text", "token", "user", "version", "what", "who", "why"),
    *("words", "worker"),
}
#: What no part of the page may hold as it came: it would hide, reverse or move text. A field that is edited holds it.
FIND = r"""() => {
  const raw = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;
  const found = [];
  if (window.hacked !== undefined) found.push("a script ran");
  if (raw.test(document.title)) found.push(`title: ${document.title}`);
  const made = document.querySelectorAll("img:not([src='/icon.svg']), script:not([src^='/assets/']), iframe, object, " +
    "embed, base, style, [onerror], [onload], [style*='url'], a[href^='javascript' i], form[action]");
  for (const each of made) found.push(`element: ${each.outerHTML.slice(0, 200)}`);
  for (const each of document.querySelectorAll("a[href]"))
    if (new URL(each.href).origin !== location.origin) found.push(`link: ${each.href}`);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    const said = `text in ${parentElement?.outerHTML.slice(0, 120)}: ${JSON.stringify(data.slice(0, 80))}`;
    if (raw.test(data) && parentElement?.tagName !== "TEXTAREA") found.push(said);
  }
  for (const each of document.querySelectorAll("*"))
    for (const name of ["title", "aria-label", "alt", "placeholder", "label"])
      if (raw.test(each.getAttribute(name) ?? "")) found.push(`${name} of ${each.tagName} .${each.className}`);
  return [...new Set(found)];
}"""
#: Makes the words of others in every answer and every message of the live connection hostile, as the page reads them.
POISON = """(() => {
  const fields = new Set(%s), evil = %s;
  const poison = (value, key) => {
    if (typeof value === "string") return fields.has(key) ? value + evil : value;
    if (Array.isArray(value)) return value.map((each) => poison(each, key));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, poison(each, name)]));
  };
  const { parse } = JSON, { json } = Response.prototype;
  JSON.parse = (...words) => poison(parse(...words), "");
  Response.prototype.json = async function () { return poison(await json.call(this), ""); };
})()"""
WRITES = r"""
import json, os, sys
evil = sys.argv[1]
print(evil, flush=True)
with open(os.environ["GRASS_RESULT_FILE"], "w") as file:
    json.dump({evil: 1, "score" + evil: 0.5, "word": evil}, file)
"""


@pytest.fixture(scope="module")
def jobs(site: Site) -> Iterator[Jobs]:
    """Jobs with hostile commands, environments, folders, results, logs and errors: the doors let these through."""
    grass = site.grass
    evil = EVIL.replace("/", "|")[:120]
    folder = grass.cwd / evil
    folder.mkdir()
    grass.write("writes.py", WRITES)
    program = [sys.executable, str(grass.cwd / "writes.py")]
    for number in range(2):
        job = grass.enqueue(
            "--name", "lr-sweep", "--gpu=1", "--", *program, EVIL + str(number), f"--tag={EVIL}{number}"
        )
        grass.until(job, "succeeded")
    script = 'printf "%s\\n" "$1" >&2; exit 3'
    failed = grass.enqueue("--gpu=1", "--env", f"A={EVIL}", "--", "sh", "-c", script, "sh", EVIL, cwd=folder)
    grass.until(failed, "failed")
    loop = 'while :; do printf "%s\\n" "$1"; sleep 0.2; done'
    running = grass.enqueue(
        "--gpu=4", "--output", str(folder / "out.txt"), "--", "sh", "-c", loop, "sh", EVIL, cwd=folder
    )
    grass.until(running, "running")
    waiting = grass.enqueue("--gpu=4", "--", "echo", EVIL)
    grass.ok("create-queue", "gpupeasy", "--gpu=1")
    grass.enqueue("gpupeasy", "--gpu=1", "--hold", "--", "echo", EVIL)
    grass.ok("sweep", "echo {x}", "-p", "x", MARKUP, "w" * 300, "--hold", "--name", "hostile", "--at-once", "1")
    grass.ok("limit", "project:p", "gpu=1")
    yield Jobs(running, waiting, failed)


def test_text_of_others_is_text_on_every_screen(site: Site, jobs: Jobs, page_watch: PageWatch) -> None:
    page = page_watch.page
    page_watch.expected += ["status of 404"]
    opened: list[str] = []
    page.on("dialog", lambda dialog: note(dialog, opened))
    page.on("popup", lambda other: opened.append(other.url))
    site.log_in(page)
    check_all(page, walk(site, page, jobs))
    page.add_init_script(POISON % (json.dumps(sorted(FIELDS)), json.dumps(EVIL)))
    check_all(page, walk(site, page, jobs))
    sweep = site.grass.jobs("hostile")[0]["id"]
    check_all(page, opened_at(site, page, f"/sweeps/sweep:{sweep}"))
    site.open(page, "/jobs")
    expect(page.get_by_text("<img src=x onerror=").first).to_be_visible()
    assert not opened


def opened_at(site: Site, page: Page, path: str) -> Iterator[str]:
    """Open the page of a sweep."""
    site.open(page, path)
    expect(page.locator(".sweep-definition, .sweep-table tbody tr").first).to_be_visible()
    yield path


def check_all(page: Page, states: Iterator[str]) -> None:
    """Go through all states of the page, and check each of them."""
    found: list[str] = []
    for name in states:
        fits(page, name)
        found += [f"{name}: {each}" for each in page.evaluate(FIND)]
    assert not found, "\n".join(found)


def note(dialog: Dialog, opened: list[str]) -> None:
    """Note a dialog that a script has opened."""
    opened.append(dialog.message)
    dialog.dismiss()
