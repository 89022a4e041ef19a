"""The texts of `grass help`, and the help of the commands whose words the daemon splits."""

from __future__ import annotations

from itertools import groupby

from grassq.core.syntax.commands import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.core.job_options import Option

#: The first and the last column of an option's explanation.
COLUMN = 23
WIDTH = 112

_SECTIONS = {
    "needs": """\
What the job needs (default: one cpu):
  --gpu=N --cpu=N --mem=SIZE --vram=SIZE --disk=SIZE
                       an amount; N may be a fraction, a SIZE is in MiB or ends in K, M, G or T;
                       these five also take the amount as a separate word
  --NAME=AMOUNT        an amount of a resource that you defined, such as --printer=1
""",
    "given": """\
What the job is given:
""",
    "treated": """\
How it is treated:
  --broker ADDRESS     the broker, HOST or HOST:PORT, written before the queue (default: $GRASS_BROKER, then the
                       one of `grass use`); your environment and directory are not sent to a broker
""",
}

ENQUEUE = """\
usage: grass enqueue [QUEUE] [options] [--] COMMAND...
       grass enqueue [QUEUE] [options] --stdin < LINES
       grass enqueue [QUEUE] [options] --array INDEXES | --each FILE -- COMMAND...

Put a command into the queue and print the id of the job. The job runs as soon as the resources are free, with your
environment and in your current directory, even after you log out.

  grass enqueue --gpu=1 python train.py
  grass enqueue exp1 --gpu=0.5 -- python train.py --lr 0.1
  grass enqueue --env "CUDA_VISIBLE_DEVICES={gpu}" --gpu=2 -- ./train.sh

  seq 100000 | sed 's/^/python eval.py --seed /' | grass enqueue --gpu=0.1 --stdin

The options end at the first word that is not an option of Grass, or at `--`. What follows is passed to the job; a
note says when an option of Grass is among it.

JOB_OPTIONS
Many jobs at once:
  --stdin              one job per line of stdin, all of them or none, each with these options. Blank lines and lines
                       that start with # are skipped. A line of plain words that names a program runs without a
                       shell; a shell runs every other line, and with --shell every line
  --array INDEXES      one job per index: 0-99, 0-99:2, 1,3,5-9; with %8 behind it at most 8 at once. {index} in the
                       command, --env, --output and --name becomes the index, which is also $GRASS_ARRAY_INDEX
  --each FILE          one job per row of a .csv with a header, a .jsonl or a .txt (csv:FILE for another name, - for
                       stdin); {column}, or {line} of a text, becomes the value, which is one word also with --shell
  --at-once N          at most N of these jobs run at once
  --max-fails K        after K failures, cancel what has not started

What is printed:
  -q, --quiet          only the id, and no notes; for many jobs the range, such as 1-100000
  --json               the job as a JSON document; for many jobs the first id and the count
  --sync               print the output and exit with the exit code of the job, like `grass run`
  --dry-run            what would be queued, where it could start now, and why not; queue nothing
  -h, --help           this text

Exit: 0 stored, 1 stored but the id could not be printed, 2 invalid arguments, 3 no such queue or program,
4 no daemon or broker, 5 refused or can never run.
"""

RUN = """\
usage: grass run [QUEUE] [options] [--] COMMAND...

Enqueue a command, print its output, and exit with its exit code: 128+n for signal n, 127 if it could not be started,
124 if a limit ended it, 1 if it was cancelled or the outcome is unknown. Ctrl-C detaches; the job keeps running.

  grass run --gpu=1 python train.py

The options are those of `grass enqueue`.

JOB_OPTIONS
What is printed:
  -q, --quiet          only the output of the job
  --json               the stored job as a JSON document on stderr
  --sync               no effect: `run` always follows the job
  --strict             end with exit code 5 if the job cannot start: it is held, its queue is paused or does not exist,
                       or the disk is full (default: print a remark and wait)
  --patient DURATION   how long the broker may be away, such as 2h, or always (default: 30s)
  --stdin              not accepted, because `run` follows one job; use `grass enqueue --stdin`
  --array INDEXES      not accepted for the same reason
  --each FILE          not accepted
  --at-once N          not accepted
  --max-fails K        not accepted
  --dry-run            only what would be queued, where it could start now, and why not
  -h, --help           this text
"""

SWEEP = """\
usage: grass sweep TEMPLATE [-p NAME VALUE...]... [options]
       grass sweep --file FILE.toml [--dry-run] [--prune]

Enqueue TEMPLATE once for every combination of the values; each {NAME} in it becomes a value, and so it does in --name,
--env and --output. All jobs are stored or none. They share a name, which other commands accept as a selector, and so
they do sweep:ID, with the id of the first job.

  grass sweep "python train.py --lr {lr} --seed {seed}" -p lr 0.1 0.01 -p seed 1 2 3 --gpu=0.5
  grass sweep "./fit.sh {x} > fit-{x}.log" -p x -1 0 1 --retries 2 --name fit
  grass wait fit; grass rerun --failed fit

  -p, --parameter NAME VALUE...
                       a parameter and its values; repeat for more. The values end at the next -p, -q, -e or
                       --option; they may begin with a minus sign. A value may be a range: 0..4, 0..1:0.25,
                       32..256*2, lin:0..1:5 or log:1e-5..1e-1:20
  --points FILE        points from a .csv with a header, or from .jsonl; with -p, each point with each combination
  --exclude "NAME=VALUE ..."
                       leave out the points that have all these values; repeat for more
  --at-once N          at most N jobs of the sweep run at once
  --max-fails K        after K failures, cancel what has not started
  --file FILE          apply a sweep in TOML: run what is new, changed or failed since it was applied last
  --prune              with --file: end the unfinished jobs of points that are no longer in it
  --n-samples N        only N combinations, all different (default: all)
  --sampling-mode shuffled_grid|grid
                       random order (default), or the order of nested loops: the last parameter changes fastest
  --seed N             the random order: the same N gives the same order (default: a new order each time)
  --dry-run            print the lines, or with --file what would change, and enqueue nothing
  --                   the next word is TEMPLATE, even if it begins with a minus sign or follows -p; several words are
                       one command: -p lr 0.1 0.01 -- python train.py --lr {lr}

Write {{ and }} for literal braces: ${{HOME}} becomes ${HOME} for the shell, {{gpu}} becomes {gpu} for Grass. Each line
is read like a line of `grass enqueue --stdin`. The combinations are those of `simple_hypersearch`. The other options
are those of `grass enqueue`; --queue names the queue.

JOB_OPTIONS
What is printed:
  -q, --quiet          only the ids, as a range such as 12-20
  --json               the name, the first id and the count as a JSON document
  -h, --help           this text
"""

WHAT_IF = """\
usage: grass what-if [QUEUE] [options] [--] COMMAND...
       grass what-if --capacity JSON5 [--on WORKER] [SELECTOR...]

Tell when a job would start and end, and where, if it were submitted now; or when jobs would end if a worker had another
capacity. Nothing is stored and nothing starts. The words of a job are those of `grass enqueue`.

  grass what-if --gpu=2 -- python train.py
  grass what-if --capacity "{gpu: 8}"
  grass what-if --capacity "{gpu: 8}" my-sweep

  --capacity JSON5     what the worker would have; resources that are not named stay. The limits of queues stay too
  --on WORKER          the worker that would have it (default: the only one, or the one on this machine)
  --json               the answer as a JSON document
  -h, --help           this text

JOB_OPTIONS
Exit: 0 answered, 2 invalid arguments, 3 no such queue, program or job, 4 no daemon or broker, 5 can never run.
"""

CREATE_QUEUE = """\
usage: grass create-queue NAME [options] [COMMAND...]

Create a queue on this machine, with limits for the resources of all its jobs together and the first words of their
command. Repeating the same definition changes nothing; a different definition replaces it, and the answer says what
changed.

  grass create-queue exp1 --gpu=2 --cpu=32
  grass create-queue exp2 --gpu=[2,3]
  grass create-queue print --capacity "{printer: 1}" lpr
  grass create-queue train --slots "0 1 2,3"

  --NAME=AMOUNT        a limit; for devices a count, a list of ids such as [2,3], or an object
  --capacity JSON5     all limits at once: "{gpu: [0, 1], cpu: 8}"
  --slots WORDS        slots instead of limits; each job takes one slot and requests nothing else. 0,1,2 or "0 1 2"
                       are three slots of one gpu, "0,1 2" is a pair and a single gpu, 2-4 is 2,3,4; two jobs share
                       an id that is listed twice
  --order stack|rotate the next free slot: the last listed, then the last freed (stack, the default), or the first
                       listed, then the longest free (rotate)
  --cwd DIR            directory of its jobs
  --wrap WORDS         words before the command of every job: "nice -n 10", "podman run --rm IMAGE"; no shell reads
                       them, `{gpu}` becomes the device ids
  --time-limit DURATION
                       the time limit of a job that names none, such as 2h (default: --max-time-limit)
  --max-time-limit DURATION
                       the longest time limit of a job; a job with a longer one is refused
  --env, -e NAME=VALUE one variable for its jobs; repeat for more
  --worker NAME        create the queue on this worker of the broker (default: on this machine)
  --at-broker          create the queue at the broker: every worker offers it, also workers that join later
  --label LABEL        with --at-broker: only workers with this label offer the queue; repeat for more
  --broker ADDRESS     with --worker or --at-broker: the broker (default: $GRASS_BROKER, then the one of `grass use`)
  --allow-env NAME     a variable that jobs from other machines may set; repeat for more (default: none)
  --unsecure           allow jobs from other machines in a queue without a command: they may run any program
  -q, --quiet          only the name
  --json               the answer as a JSON document
  -h, --help           this text
"""

MACHINE = """\
usage: grass machine [list] | add | test | retry | remove | shell | upgrade

Use other computers as workers over ssh. Nothing is installed there by hand: it takes sshd, sh and your ssh key.

  grass machine add gpu1                          gpu1 is a host of ~/.ssh/config
  grass machine add gpu2 ann@10.0.0.7 --label a100
  grass machine add gpu3 machine.yaml             a machine file of ml-scheduler
  grass machine test gpu1

  list                 every machine and its state (default)
  add NAME [user@host | ssh://user@host:PORT | FILE.yaml]
                       log in, then use the machine as worker NAME; the same words again change nothing
      --label LABEL        a label that jobs can request with --label; repeat for more
      --capacity JSON5     what it offers, such as "{gpu: 2, cpu: 8}" (default: what is found there)
      --port N             the port of its sshd
      --key FILE           the private key (default: the keys of ssh itself and of the agent)
      --dir DIR            the folder there for everything of Grass (default: .grass-ssh in the home directory)
      --no-python          use only sh there, also where a Python is found
      --accept-key         trust the host key that is shown now, if none is known (default: ask on a terminal)
  test NAME            try login, shell, Python, space, GPUs, clock and speed; exit 1 if one fails
  retry NAME           connect now, with the ssh agent of this terminal
  remove NAME          delete what is there, and forget the machine
      --force              also while jobs run there (they are ended) or while it does not answer
  shell NAME [COMMAND...]
                       log in to it with your ssh
  upgrade NAME         install Grass there, and make it a worker that connects to this broker by itself

  --broker local       this machine's own queue, although commands go to another broker
  --json               the answer as a JSON document; of `test` one for each step
  -h, --help           this text
"""

#: The commands that read their words as typed.
_TEXTS = {
    "enqueue": ENQUEUE,
    "run": RUN,
    "sweep": SWEEP,
    "what-if": WHAT_IF,
    "create-queue": CREATE_QUEUE,
    "machine": MACHINE,
}


def text_of(name: str, *, job_options: bool = True) -> str:
    """Return the help text of a command that takes its words as typed; the options of a job may be left out."""
    return _TEXTS[name].replace("JOB_OPTIONS", _job_options() if job_options else "")


def _job_options() -> str:
    # Imported here: most commands do not need it.
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


#: What holds for all commands.
FOOT = """\
SELECTOR is an id, a range 3-7, a list 1,4, @ (the last), @~1 (the one before),
all, a state or several (failed,cancelled), a queue, a name, project:P, P/NAME,
P/NAME/ID, tag:K=V, tag:K, state:S, since:2d, sweep:ID, or token:ID (the
unfinished jobs of a token); + is and, comma is or: failed+since:2d,tag:team=a.
DURATION is 90s, 5m, 1h30m, 7d or 1week.
`grass COMMAND --help` explains a command. `--json` prints data for programs.
Exit: 0 ok, 1 a job or a test notice failed, no line matched, or the answer
could not be written, 2 usage, 3 not found, 4 no daemon or broker, 5 refused,
124 timed out, 130 interrupted, 141 output pipe closed.
"""

_OVERVIEW = """\
usage: grass COMMAND [words]

A job queue for people with GPUs. First steps: grass enqueue python train.py,
then grass show, grass top, and grass log -f @ for the output of the last job.
"""
#: The overview fits a terminal of this width.
OVERVIEW_WIDTH = 80


def overview() -> str:
    """Return the text of `grass` alone: every command with its summary, in groups."""
    from textwrap import wrap

    column = max(len(command.name) for command in COMMANDS) + 4
    parts = [_OVERVIEW]
    for group, commands in groupby(COMMANDS, lambda command: command.group):
        parts.append(f"\n{group}:\n")
        for command in commands:
            lines = wrap(command.summary, OVERVIEW_WIDTH - column)
            parts.append(f"  {command.name:<{column - 2}}" + f"\n{'':{column}}".join(lines) + "\n")
    return "".join(parts) + "\n" + FOOT
