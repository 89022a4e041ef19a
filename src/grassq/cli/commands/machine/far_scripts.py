"""The scripts that `upgrade` runs on a machine, in POSIX sh; each says what it found in lines that begin with MARK."""

from __future__ import annotations

import shlex

MARK = "grass-upgrade "
#: Where Grass is installed, below the home directory there.
FOLDER = ".local/share/grassq"

_HEAD = f"""\
LC_ALL=C; export LC_ALL
umask 077
say() {{ printf '{MARK}%s\\n' "$*"; }}
grass_base=$HOME/{FOLDER}
grass_state=${{XDG_STATE_HOME:-$HOME/.local/state}}/grass
"""

_LOOK = """\
if [ -e "$grass_state" ]; then say used "$grass_state"; exit; fi
for each in python3.14 python3.13 python3.12 python3.11 python3; do
    if "$each" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' </dev/null 2>/dev/null; then
        say python "$each"
        "$each" -c '
import socket, sys
for address in sys.argv[1:]:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 5).close()
    except OSError as error:
        print("%(mark)swhy", error.strerror or error)
    else:
        print("%(mark)sreached", address)
        break
' %(addresses)s </dev/null
        exit
    fi
done
say found "$(python3 --version </dev/null 2>/dev/null)"
"""

_INSTALL = """\
rm -rf "$grass_base"
mkdir -p "$grass_base" || { say why "$grass_base cannot be made"; exit; }
failed() { say why "$(tail -n 1 "$grass_base/install.log")"; rm -rf "$grass_base"; exit; }
%(python)s -m venv "$grass_base" </dev/null >"$grass_base/install.log" 2>&1 || failed
"$grass_base/bin/python" -c '
import base64, sys
open(sys.argv[1], "wb").write(base64.b64decode(sys.stdin.read()))
' "$grass_base"/%(wheel)s 2>"$grass_base/install.log" <<'END' || failed
%(content)sEND
"$grass_base/bin/python" -m pip --disable-pip-version-check install --quiet "$grass_base"/%(wheel)s \\
    </dev/null >"$grass_base/install.log" 2>&1 || failed
version=$("$grass_base/bin/grass" --version </dev/null 2>"$grass_base/install.log") || failed
say installed "${version#grass }"
"""

_JOIN = """\
grass=$grass_base/bin/grass
unset GRASS_HOME GRASS_BROKER
if ! printf '%%s\\n' %(code)s | "$grass" join --name %(name)s >"$grass_base/join.log" 2>&1; then
    say why "$(tail -n 1 "$grass_base/join.log")"
    exit
fi
nohup "$grass" daemon --no-broker %(options)s </dev/null >"$grass_base/daemon.log" 2>&1 &
say joined
"""

_UNINSTALL = """\
[ -x "$grass_base/bin/grass" ] && "$grass_base/bin/grass" stop </dev/null >/dev/null 2>&1
rm -rf "$grass_base" "$grass_state"
say removed
"""


def look(addresses: list[str]) -> str:
    """Return the script that finds a Python, and tries the broker's addresses with it."""
    return _HEAD + _LOOK % {"mark": MARK, "addresses": shlex.join(addresses)}


def install(python: str, wheel: str, content: str) -> str:
    """Return the script that installs a wheel, given in lines of base64, into an environment of its own."""
    return _HEAD + _INSTALL % {"python": shlex.quote(python), "wheel": shlex.quote(wheel), "content": content}


def join(name: str, code: str, options: list[str]) -> str:
    """Return the script that joins the broker with a code, and starts a worker with these options of `grass daemon`."""
    return _HEAD + _JOIN % {"name": shlex.quote(name), "code": shlex.quote(code), "options": shlex.join(options)}


def uninstall() -> str:
    """Return the script that takes back what `install` and `join` have made."""
    return _HEAD + _UNINSTALL
