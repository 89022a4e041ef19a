"""top: devices, jobs and a live log on one screen."""

from __future__ import annotations

import argparse

EPILOG = "`?` lists the keys. Without a terminal, one frame is printed as text, as with --once."


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `top`."""
    parser.epilog = EPILOG
    parser.add_argument(
        "filter", metavar="FILTER", nargs="*", help="show only some jobs: selectors, or text to search for"
    )
    parser.add_argument("--once", action="store_true", help="print one frame as text and exit")
    parser.add_argument("--read-only", action="store_true", help="change nothing; `:rw` switches this off")
    parser.add_argument(
        "-o", "--columns", metavar="COLUMNS", help="the columns of the table of jobs, such as id,state,name"
    )
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_argument(
        "--mouse", action="store_true", help="use the mouse here; without it, the terminal selects text"
    )
    parser.set_defaults(run=_top)


def _top(arguments: argparse.Namespace) -> int:
    from grassq.cli.top import job_rows, run

    columns = job_rows.DEFAULT_COLUMNS if arguments.columns is None else job_rows.parse_columns(arguments.columns)
    return run.run(
        arguments.broker,
        once=arguments.once,
        read_only=arguments.read_only,
        as_ascii=arguments.ascii,
        filter_=" ".join(arguments.filter),
        columns=columns,
        mouse=arguments.mouse,
    )
