"""completion: print the script that completes `grass` in a shell."""

from __future__ import annotations

import argparse
from pathlib import Path

from grassq.cli import completion, render
from grassq.home import environment_text

#: What each shell does to use the script.
SHELLS = {
    "bash": """eval "$(grass completion bash)"     in ~/.bashrc""",
    "zsh": """eval "$(grass completion zsh)"      in ~/.zshrc, after compinit""",
    "fish": """grass completion fish > ~/.config/fish/completions/grass.fish""",
}
_HOW = "\n".join(f"  {line}" for line in SHELLS.values())
EPILOG = f"""\
To use it, now and in every new shell:
{_HOW}

It completes commands, options, jobs with their commands, names, queues, workers and files. The command of a job is
completed as it is without `grass enqueue`.
"""


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `completion`."""
    help_ = "the shell (default: that of $SHELL)"
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help=help_)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.set_defaults(run=script)


def script(arguments: argparse.Namespace) -> int:
    """Print the script of a shell."""
    shell = arguments.shell or Path(environment_text().get("SHELL", "")).name
    folder = Path(completion.__file__).parent / "shells"
    if shell not in SHELLS:
        from grassq.errors import BadInput

        raise BadInput(f"say for which shell: {', '.join(SHELLS)}; see `grass completion --help`")
    return render.text((folder / f"grass.{shell}").read_text(encoding="utf-8"))
