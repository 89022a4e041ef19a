"""Where a notice goes: a command, an http or https URL, the desktop, or a URL of apprise."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from grassq.core.names import shown
from grassq.errors import BadInput

#: The longest target, in characters, and the most targets of one job.
TARGET_MAX = 2000
TARGETS_MAX = 8
DESKTOP = "desktop"
#: What the extra of the package is called, and how it is installed.
APPRISE_HINT = "needs apprise: pip install 'grassq[notify]'"

Kind = Literal["command", "desktop", "url", "apprise"]
#: What is sent to a URL: the notice as JSON, a JSON of one text for Slack or Discord, or plain text for ntfy.
Style = Literal["json", "slack", "discord", "ntfy", "text"]
STYLES: tuple[Style, ...] = ("json", "slack", "discord", "ntfy", "text")

#: Hosts whose documented form is known; at any other host `#slack` behind the URL chooses the form.
_HOST_STYLES: dict[str, Style] = {
    "hooks.slack.com": "slack",
    "discord.com": "discord",
    "discordapp.com": "discord",
    "ntfy.sh": "ntfy",
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31})://")


class Target(Struct, frozen=True):
    """One place that notices go to."""

    kind: Kind
    #: The command line, or the URL without its `#style`.
    text: str
    style: Style = "json"

    @property
    def is_local(self) -> bool:
        """Whether something runs on the broker's machine: only the owner may ask for it."""
        return self.kind != "url"


def read_target(text: str, what: str = "--notify") -> Target:
    """Return the target that a text names; raise BadInput for a text that names none."""
    target = stored_target(text, what)
    if target.kind == "url" and not _can_be_asked_for(host_of(target)):
        raise BadInput(
            f"{what} {masked_url(target.text)} names a host that cannot be: between dots are 1 to 63 characters"
        )
    return target


def stored_target(text: str, what: str = "--notify") -> Target:
    """Return the target that a text names which was accepted before, perhaps by a release that checked no host."""
    typed = text.strip()
    if not typed or len(typed) > TARGET_MAX or "\0" in typed:
        raise BadInput(f"{what} needs a command, a URL or {DESKTOP}, of at most {TARGET_MAX:,} characters")
    if typed == DESKTOP:
        return Target("desktop", typed)
    scheme = _SCHEME.match(typed)
    if scheme is None:
        if re.match(r"(mailto|https?):", typed):
            raise BadInput(f"{what} needs // behind the first colon of a URL: {typed.partition(':')[0]}://...")
        return Target("command", typed)
    if not typed.isprintable() or " " in typed:
        raise BadInput(f"{what} {masked_url(typed)} has a blank or a control character; write %20 for a blank")
    if scheme[1].lower() not in ("http", "https"):
        return Target("apprise", typed)
    return _web_target(typed, what)


def _web_target(typed: str, what: str) -> Target:
    url, _, fragment = typed.partition("#")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise BadInput(f"{what} {masked_url(typed)} names no host")
    if fragment and fragment not in STYLES:
        raise BadInput(
            f"{what}: {shown('#' + fragment)} is not a form of a notice; the forms are #{', #'.join(STYLES)}"
        )
    style = next((known for known in STYLES if known == fragment), None)
    return Target("url", url, style or _HOST_STYLES.get(host.lower(), "json"))


def _can_be_asked_for(host: str) -> bool:
    """Tell whether a host can be written as the name system takes it."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def host_of(target: Target) -> str:
    """Return the host of a URL, in lower case."""
    return (urlsplit(target.text).hostname or "").lower()


def masked(target: Target) -> str:
    """Return a target as it may be shown: without what may be a secret in a URL or in the words of a command."""
    if target.kind == "command":
        program, *others = target.text.split()
        return f"{program} ..." if others else program
    return target.text if target.kind == "desktop" else masked_url(target.text)


def masked_url(url: str) -> str:
    """Return the scheme of a URL, and of http and https also the host: any other part may be a token."""
    scheme = url.partition("://")[0]
    if scheme.lower() not in ("http", "https"):
        return f"{scheme}://..."
    try:
        host, port = urlsplit(url).hostname or "", urlsplit(url).port
    except ValueError:
        host, port = "", None
    return f"{scheme}://{host}{f':{port}' if port else ''}/..."
