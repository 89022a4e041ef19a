"""What the page about the API says about tokens: curl with a token and a pin, as it is written there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.blocks import ROOT
from tests.e2e.world import free_port

from grassq.web.openapi.document import NEEDS

PAGE = (ROOT / "docs" / "reference" / "http.md").read_text()
WAIT_S = 60.0


def test_curl_takes_the_token_and_the_pin_of_a_login(tmp_path: Path) -> None:
    script = re.search(r"((?:^    .+\n)+)", PAGE.split("## With a token")[1], re.MULTILINE)
    assert script is not None and script[0].count("\n") == 4
    address = f"127.0.0.1:{free_port()}"
    grass = [sys.executable, "-m", "grassq"]
    broker, user = ({**os.environ, "GRASS_HOME": str(tmp_path / name)} for name in ("broker", "user"))

    def said(words: list[str], env: dict[str, str], given: str = "") -> str:
        done = subprocess.run(words, env=env, input=given, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 0, done
        return done.stdout

    daemon = subprocess.Popen([*grass, "daemon", "--bind", address, "--no-worker"], env=broker, stderr=subprocess.PIPE)
    try:
        assert daemon.stderr is not None
        while b"ready" not in (line := daemon.stderr.readline()):
            assert line, "the daemon has ended"
        code = said([*grass, "token", "create", "--scope", "read", "-q"], broker)
        said([*grass, "login"], user, code)
        ask = script[0].replace("my.server.com:7500", address)
        assert json.loads(said(["bash", "-euo", "pipefail", "-c", ask], user))["jobs"] == []
        # With another pin curl talks to nobody.
        wrong = ask.replace("sha256//$pin", f"sha256//{'A' * 43}=")
        assert subprocess.run(
            ["bash", "-c", wrong], env=user, capture_output=True, timeout=WAIT_S, check=False
        ).returncode
    finally:
        daemon.terminate()
        daemon.communicate(timeout=WAIT_S)


def test_every_route_has_a_chapter_and_says_who_may_use_it() -> None:
    api = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            chapter = PAGE.split(f"\n### {method.upper()} {path}\n")[1].partition("\n### ")[0]
            assert operation["summary"] in chapter and NEEDS[operation["x-need"]] in chapter
    for name in api["components"]["schemas"]:
        assert PAGE.count(f"\n### {name}\n") == 1
