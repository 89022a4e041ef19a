"""Stand-ins on PATH for systemctl, loginctl and crontab, for a system with or without them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FAKE = Path(__file__).with_name("fake_systemctl.py")
#: A crontab in a file, because the real crontab belongs to the user that runs the tests.
CRONTAB = """#!/bin/sh
case $1 in
-l) [ -e "{0}/tab" ] || {{ echo "no crontab for ann" >&2; exit 1; }}; cat "{0}/tab" ;;
-r) rm "{0}/tab" ;;
-) cat > "{0}/tab.new" && mv "{0}/tab.new" "{0}/tab" ;;
esac
"""


class SystemTools:
    """A folder with the stand-ins, and what they were asked."""

    def __init__(self, folder: Path) -> None:
        """Make a system with a systemd of the user, which lingers, and with cron."""
        self._bin = folder / "bin"
        self._bin.mkdir(parents=True)
        self._state = folder
        self.crontab = folder / "tab"
        self.config = folder / "config"
        self.lingers(True)
        self._program("systemctl", f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "{folder}" "$@"\n')
        self._program("loginctl", f'#!/bin/sh\ncat "{folder}/linger"\n')
        self._program("crontab", CRONTAB.format(folder))

    def _program(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)

    def lingers(self, is_so: bool) -> None:
        """Say whether the user's systemd runs without a login."""
        (self._state / "linger").write_text("yes\n" if is_so else "no\n")

    def without_systemd(self) -> None:
        """Let no systemd of the user answer."""
        (self._state / "gone").touch()

    def without_crontab(self) -> None:
        """Let the user have no crontab."""
        self._program("crontab", "#!/bin/sh\necho 'you (ann) are not allowed to use this program' >&2; exit 1\n")

    @property
    def unit(self) -> Path:
        """The file of the unit of the usual home, or of the only other home."""
        found = sorted((self.config / "systemd" / "user").glob("grass*.service"))
        return found[0] if found else self.config / "systemd" / "user" / "grass.service"

    def calls(self) -> list[str]:
        """Every call of systemctl so far, without `--user`."""
        path = self._state / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def pid(self) -> int:
        """The process of the unit that was started last; 0 if none was."""
        path = self._state / self.unit.name
        return int(path.read_text()) if path.exists() else 0

    @property
    def env(self) -> dict[str, str]:
        """The variables of a user whose system this is."""
        return {"PATH": f"{self._bin}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(self.config)}
