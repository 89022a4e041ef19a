"""The table of every `grass` command. Parsers, help, reserved names and the reference pages derive from it."""

from __future__ import annotations

from typing import NamedTuple


class CommandInfo(NamedTuple):
    """One command of `grass`."""

    name: str
    #: The module in `cli/commands` that holds the command.
    module: str
    #: The heading under which `grass help` lists the command.
    group: str
    summary: str
    aliases: tuple[str, ...] = ()
    #: The command is about this machine; every other command takes --broker.
    is_local: bool = False
    #: The module reads the words as typed; other commands use argparse. Of most such commands the daemon splits the
    #: words, because only the daemon knows the queues.
    takes_words: bool = False


JOBS, LOOKING, QUEUES, MACHINES = "Jobs", "Looking", "Queues", "Several machines"
DAEMON, SETUP = "Daemon", "Set-up"

#: In the order of `grass help`.
COMMANDS = (
    CommandInfo("enqueue", "jobs.run", JOBS, "put a command into the queue and print its id", takes_words=True),
    CommandInfo(
        "run", "jobs.run", JOBS, "enqueue, print the output, and exit with the job's exit code", takes_words=True
    ),
    CommandInfo(
        "sweep", "jobs.sweep", JOBS, "enqueue a command for every combination of parameter values", takes_words=True
    ),
    CommandInfo("kill", "jobs.job_actions", JOBS, "end jobs"),
    CommandInfo("rerun", "jobs.job_actions", JOBS, "submit jobs again"),
    CommandInfo("hold", "jobs.job_actions", JOBS, "keep waiting jobs from starting"),
    CommandInfo("release", "jobs.job_actions", JOBS, "let held jobs start"),
    CommandInfo("suspend", "jobs.job_actions", JOBS, "stop the processes of running jobs until they are resumed"),
    CommandInfo("priority", "jobs.job_actions", JOBS, "start jobs earlier or later"),
    CommandInfo("edit", "jobs.edit", JOBS, "change jobs that have not started"),
    CommandInfo("move", "jobs.move", JOBS, "change the place of jobs among those of equal priority"),
    CommandInfo("clean", "jobs.job_actions", JOBS, "remove finished jobs and their logs"),
    CommandInfo(
        "show", "looking.show", LOOKING, "list jobs and queues (also: info, status)", aliases=("info", "status")
    ),
    CommandInfo("top", "looking.top", LOOKING, "watch devices, jobs and logs on one screen"),
    CommandInfo("web", "looking.web", LOOKING, "open the web page in a browser, or print a link to it"),
    CommandInfo("why", "looking.why", LOOKING, "explain why a job is not running"),
    CommandInfo("eta", "looking.eta", LOOKING, "tell when jobs start and end, as intervals"),
    CommandInfo(
        "what-if",
        "looking.what_if",
        LOOKING,
        "tell when a job would start, or what another capacity would change; store nothing",
        takes_words=True,
    ),
    CommandInfo("log", "looking.logs", LOOKING, "print the output of a job"),
    CommandInfo("follow", "looking.logs", LOOKING, "print the output of a job until the job ends"),
    CommandInfo("wait", "looking.wait", LOOKING, "wait until jobs are done"),
    CommandInfo("events", "looking.events", LOOKING, "print changes of jobs as they happen"),
    CommandInfo("history", "looking.history", LOOKING, "count runs, device hours and waiting times of ended jobs"),
    CommandInfo("create-queue", "queues", QUEUES, "create a queue with limits and a command", takes_words=True),
    CommandInfo("delete-queue", "queues", QUEUES, "remove a queue"),
    CommandInfo("pause", "queues", QUEUES, "start no new jobs in a queue, or in all queues"),
    CommandInfo("resume", "queues", QUEUES, "start jobs of queues again, or let suspended jobs go on"),
    CommandInfo("limit", "limits", QUEUES, "cap what the jobs of a project or a tag hold at once"),
    CommandInfo("login", "access", MACHINES, "log in to a broker with a one-time code", is_local=True),
    CommandInfo("logout", "access", MACHINES, "forget a broker, and end the token there", is_local=True),
    CommandInfo("use", "access", MACHINES, "send all commands to a broker, or to this machine again", is_local=True),
    CommandInfo(
        "join", "access", MACHINES, "make this machine a worker of a broker with a one-time code", is_local=True
    ),
    CommandInfo("machine", "machine", MACHINES, "add, list, test and remove machines over ssh", takes_words=True),
    CommandInfo("token", "access", MACHINES, "list, create and revoke access tokens"),
    CommandInfo("device", "devices", MACHINES, "list, add, remove and drain devices while jobs run"),
    CommandInfo("drain", "workers", MACHINES, "start no new jobs on a worker"),
    CommandInfo("remove", "workers", MACHINES, "remove a worker"),
    CommandInfo("audit", "access", MACHINES, "list changes and the users that made them"),
    CommandInfo(
        "start",
        "daemon",
        DAEMON,
        "start the daemon in the background (other commands do it too)",
        is_local=True,
    ),
    CommandInfo("stop", "daemon", DAEMON, "end the daemon; jobs keep running", is_local=True),
    CommandInfo("restart", "daemon", DAEMON, "end the daemon and start it again; jobs keep running", is_local=True),
    CommandInfo("daemon", "daemon", DAEMON, "run the daemon in the foreground", is_local=True),
    CommandInfo("doctor", "doctor", SETUP, "check this machine and print advice", is_local=True),
    CommandInfo("config", "config", SETUP, "list the settings, and where each comes from", is_local=True),
    CommandInfo("notify", "notify", SETUP, "list the rules of notices and what was sent; send a test", is_local=True),
    CommandInfo("store", "store", SETUP, "copy all jobs to another store", is_local=True),
    CommandInfo("install-service", "install_service", SETUP, "start the daemon at boot", is_local=True),
    CommandInfo("slurm-alias", "slurm_alias", SETUP, "link sbatch, squeue and the others to Grass", is_local=True),
    CommandInfo("completion", "completion", SETUP, "print the completion script of a shell", is_local=True),
)

#: Each command under its name and under its aliases; the aliases come last.
BY_NAME = {command.name: command for command in COMMANDS} | {
    alias: command for command in COMMANDS for alias in command.aliases
}
