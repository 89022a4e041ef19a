"""The texts of `grass help`, and of the commands whose words the daemon splits."""

from __future__ import annotations

from itertools import groupby

from grassq.core.syntax.commands import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.core.job_options import Option

#: Where the explanation of an option begins, and where it ends.
COLUMN = 23
WIDTH = 112

_SECTIONS = {
    "needs": """\
What the job needs (none of them: one cpu):
  --gpu=N --cpu=N --mem=SIZE --vram=SIZE --disk=SIZE
                       an amount; N may be a fraction, a SIZE is in MiB or ends in K, M, G or T;
                       these five also take the amount as a separate word
  --NAME=AMOUNT        an amount of a resource of your own, such as --printer=1
""",
    "given": """\
What the job is given:
""",
    "treated": """\
How it is treated:
  --broker ADDRESS     the broker to ask, HOST or HOST:PORT, before the queue (default: $GRASS_BROKER, then what
                       `grass use` said); nothing of your environment and directory is sent there
""",
}

ENQUEUE = """\
usage: grass enqueue [QUEUE] [options] [--] COMMAND...
       grass enqueue [QUEUE] [options] --stdin < LINES

Put a command into the queue and print its id. It runs when what it needs is free, with your environment and
in your current directory, whether or not you stay logged in.

  grass enqueue --gpu=1 python train.py
  grass enqueue exp1 --gpu=0.5 -- python train.py --lr 0.1
  grass enqueue --env "CUDA_VISIBLE_DEVICES={gpu}" --gpu=2 -- ./train.sh

  seq 100000 | sed 's/^/python eval.py --seed /' | grass enqueue --gpu=0.1 --stdin

Options end at the first word that is not ours; `--` before the command removes all doubt.

JOB_OPTIONS
Many jobs at once:
  --stdin              a job of each line of stdin, all of them or none; the options hold for every one. Blank lines
                       and lines that start with # are left out. Plain words that name a program are started as they
                       are; any other line a shell reads, and with --shell every line

What is printed:
  -q, --quiet          the id alone; of many the range, such as 1-100000
  --json               the job as a JSON document; of many the first id and how many
  --sync               follow the output and exit as the job does, like `grass run`
  -h, --help           this text

Exit: 0 stored, 1 stored but its id could not be printed, 2 invalid words, 3 no such queue or program,
4 no daemon or broker, 5 refused or can never run.
"""

RUN = """\
usage: grass run [QUEUE] [options] [--] COMMAND...

Enqueue a command, show its output while it runs, and exit as it does: with its exit code, 128+n for signal n,
127 when it could not be started, 1 when it was cancelled or nobody knows. Ctrl-C detaches; the job runs on.

  grass run --gpu=1 python train.py

The options are those of `grass enqueue`.

JOB_OPTIONS
What is printed:
  -q, --quiet          the job's output alone
  --json               the stored job as a JSON document on stderr
  --sync               accepted, and always so
  --stdin              not accepted: it makes many jobs, and this follows one; use `grass enqueue --stdin`
  -h, --help           this text
"""

SWEEP = """\
usage: grass sweep TEMPLATE [-p NAME VALUE...]... [options]

Enqueue TEMPLATE once for every combination of the values, with the value for each {NAME} in it. All the jobs are
stored or none, and they share a name, by which all other commands take them together.

  grass sweep "python train.py --lr {lr} --seed {seed}" -p lr 0.1 0.01 -p seed 1 2 3 --gpu=0.5
  grass sweep "./fit.sh {x} > fit-{x}.log" -p x -1 0 1 --retries 2 --name fit
  grass wait fit; grass rerun --failed fit

  -p, --parameter NAME VALUE...
                       a parameter and its values; repeat for more. Values go on to the next -p, -q, -e or
                       --option, and may begin with a minus sign
  --n-samples N        only N of the combinations, none of them twice (default: all)
  --sampling-mode shuffled_grid|grid
                       in random order (default), or as nested loops have it, the last parameter fastest
  --seed N             the random order: the same with the same N (default: another one each time)
  --dry-run            print the lines and enqueue nothing
  --                   what follows is TEMPLATE, also when it begins with a minus sign or stands behind -p

{{ and }} in TEMPLATE are the braces themselves: ${{HOME}} is left for the shell, {{gpu}} for Grass. Each
line is read as `grass enqueue --stdin` reads it, and the search is that of `simple_hypersearch`. The other options are
those of `grass enqueue`; the queue is named by --queue.

JOB_OPTIONS
What is printed:
  -q, --quiet          the ids alone, as a range such as 12-20
  --json               the name, the first id and how many as a JSON document
  -h, --help           this text
"""

CREATE_QUEUE = """\
usage: grass create-queue NAME [options] [COMMAND...]

Make a queue on this machine: limits for what its jobs hold together, and the first words of their command.
The same definition again changes nothing; another one replaces it.

  grass create-queue exp1 --gpu=2 --cpu=32
  grass create-queue exp2 --gpu=[2,3]
  grass create-queue print --capacity "{printer: 1}" lpr
  grass create-queue train --slots "0 1 2,3"

  --NAME=AMOUNT        a limit; for devices a count, a list of ids such as [2,3], or an object
  --capacity JSON5     all limits at once: "{gpu: [0, 1], cpu: 8}"
  --slots WORDS        instead of limits, places of which each job takes one and asks for nothing else: 0,1,2 or
                       "0 1 2" are one gpu each, "0,1 2" a pair and a single one, 2-4 is 2,3,4; an id listed twice
                       is shared by two jobs
  --order stack|rotate which free slot is next: the last listed, then the last freed (stack, the default), or the
                       first listed, then the one free longest
  --cwd DIR            directory its jobs run in
  --env, -e NAME=VALUE one variable for its jobs; repeat for more
  --worker NAME        on that machine of the broker (default: on this one)
  --at-broker          at the broker: every worker offers it, also one that joins later; its jobs wait for one
  --label LABEL        with --at-broker: only workers with that label; repeat for more
  --broker ADDRESS     with the last three: the broker to ask (default: $GRASS_BROKER, then what `grass use` said)
  --allow-env NAME     a variable that jobs from other machines may set; repeat for more (default: none)
  --unsecure           allow jobs from other machines in a queue without a command: they may run any program
  -q, --quiet          the name alone
  --json               the answer as a JSON document
  -h, --help           this text
"""

#: Commands whose words the daemon splits, because only it knows the queues.
_TEXTS = {"enqueue": ENQUEUE, "run": RUN, "sweep": SWEEP, "create-queue": CREATE_QUEUE}


def text_of(name: str) -> str:
    """Return the help text of a command that takes its words as typed."""
    return _TEXTS[name].replace("JOB_OPTIONS", _job_options())


def _job_options() -> str:
    # Here, because most commands need neither the options of a job nor what reads them.
    from grassq.core.syntax.options import ENQUEUE as OPTIONS

    known = {option.name: option for option in OPTIONS.values()}.values()
    parts = []
    for section, heading in _SECTIONS.items():
        lines = [_option_lines(option) for option in known if option.help and option.section == section]
        parts.append(heading + "".join(lines))
    return "\n".join(parts)


def _option_lines(option: Option) -> str:
    from textwrap import wrap

    value = f"[={option.value}]" if option.takes == "maybe" else f" {option.value}" if option.value else ""
    spelled = option.typed + (f", -{option.short}" if option.short else "") + value
    lines = wrap(option.help, WIDTH - COLUMN)
    head = f"  {spelled:<{COLUMN - 3}} " if len(spelled) < COLUMN - 2 else f"  {spelled}\n{'':{COLUMN}}"
    return head + f"\n{'':{COLUMN}}".join(lines) + "\n"


_FOOT = """\
SELECTOR is an id, a range 3-7, a list 1,4, @ (the last), @~1 (the one before), all, a state, a queue or a name.
`grass COMMAND --help` tells more. `--json` prints data for programs.
Exit: 0 ok, 1 a job failed or the answer could not be written, 2 usage, 3 not found, 4 no daemon or broker,
5 refused, 124 timed out, 130 interrupted, 141 nobody reads the answer any more (a closed pipe).
"""


def overview() -> str:
    """Return the text of `grass` alone: every command with its summary, in groups."""
    lines = ["usage: grass COMMAND [words]", "", "A job queue for people with GPUs."]
    for group, commands in groupby(COMMANDS, lambda command: command.group):
        lines += ["", f"{group}:"]
        lines += [f"  {command.name:<14}{command.summary}" for command in commands]
    return "\n".join(lines) + "\n\n" + _FOOT
