"""install-service: start the daemon at boot, by systemd or by cron."""

from __future__ import annotations

import argparse

from grassq.cli import render
from grassq.cli.commands.daemon import stop_daemon
from grassq.cli.fast import current_home
from grassq.cli.service import install as service
from grassq.cli.service.unit import here

EPILOG = """\
With a systemd of your user it writes and starts a unit in ~/.config/systemd/user, else it adds an @reboot line to your
crontab. The daemon comes back with the options it had: as a broker, a worker or both. A daemon that runs is replaced;
jobs keep running. The same call again changes nothing.
"""


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `install-service`."""
    parser.add_argument("--remove", action="store_true", help="remove the service again; the daemon keeps running")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done; do nothing")
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Install or remove the service, or tell how."""
    starter = here(current_home())
    if arguments.dry_run and not arguments.remove:
        lines = service.plan(starter)
        return render.document({"plan": lines}) if arguments.json else render.text("".join(f"{e}\n" for e in lines))
    if arguments.dry_run:
        found = service.found(starter)
        sentence = f"would remove {found}" if found else "no service is installed"
        return render.outcome(arguments.json, {"would_remove": found}, sentence)
    done = service.remove(starter) if arguments.remove else service.install(starter, stop_daemon)
    answer = {"kind": done.kind, "what": done.what, "changed": done.changed, "notes": done.notes}
    return render.outcome(arguments.json, answer, _sentence(done, removed=arguments.remove))


def _sentence(done: service.Installed, *, removed: bool) -> str:
    if removed:
        where = {"systemd": f"removed {done.what}", "crontab": "removed the line from your crontab"}
        return where.get(done.kind, "no service is installed")
    if done.kind == "crontab":
        return f"your crontab {'now starts' if done.changed else 'already starts'} the daemon at boot: {done.what}"
    if not done.changed:
        return f"unchanged: {done.what} starts the daemon and runs it now"
    return f"installed {done.what}: systemd runs the daemon now and starts it at boot"
