"""Slurm's commands as typed, with a real daemon."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tests.compat.slurm.slurm_desk import SlurmDesk
from tests.e2e.world import eventually

GATE = 'until [ -e "$GATE" ]; do sleep 0.02; done'


def test_jobs_are_submitted_listed_and_cancelled_as_under_slurm(desk: SlurmDesk) -> None:
    desk.env["GATE"] = str(desk.cwd / "gate")
    desk.ok("create-queue", "main", "--gpu=2", "--cpu=2")
    # Nothing of this is stored.
    for words, code, said in (
        (("--foo", "--wrap", "x"), 2, "'--foo'"),
        (("--nodes=2", "--wrap", "x"), 2, "one node"),
        (("gone.sh",), 3, "gone.sh"),
        (("-p", "nowhere", "--wrap", "x"), 3, "nowhere"),
        (("-p", "main", "-G", "9", "--wrap", "x"), 5, "9 gpu"),
        (("-d", "afterok:99", "--wrap", "x"), 3, "no job 99"),
    ):
        done = desk.refused("sbatch", *words)
        assert done.code == code and said in done.err and done.err.count("\n") == 1, done
    # Slurm's words for a dry run, and its codes.
    for words, code, said in (
        (
            ("--test-only", "-a", "0-3"),
            0,
            r"sbatch: Job 1 to start at \d\S+ using 1 processors on nodes \S+ in part.+n\n",
        ),
        (("--dry-run", "-b", "now+1hour"), 0, r"sbatch: Job 1 to start at \d\S+ .* partition main: waits .*\n"),
        (("--test-only", "-G", "9"), 1, "allocation failure: this can never run: .*\n"),
        (("--test-only", "-d", "afterok:99"), 1, "allocation failure: .*no job 99\n"),
    ):
        done = desk.program("sbatch", "-p", "main", *words, "--wrap", "x")
        assert (done.code, done.out) == (code, "") and re.fullmatch(said, done.err), done
    desk.nothing_was_stored()

    # Codes of --wait, notes, and one job per name of a list.
    done = desk.program("sbatch", "-W", "--parsable", "--mail-type=END", "--wrap", "exit 6")
    assert (done.code, done.out) == (6, "1\n") and done.err.startswith("sbatch: note: --mail-type: "), done
    assert desk.typed("sbatch", "-W", "-Q", "-a", "1-2", "--wrap", "exit $SLURM_ARRAY_TASK_ID", code=2) == ""
    assert desk.typed("sacct", "-X", "-P", "-n", "-j", "1,2", "-o", "jobid,state,exitcode") == (
        "1|FAILED|6:0\n2_1|FAILED|1:0\n2_2|FAILED|2:0\n"
    )
    steps = desk.typed(
        "sacct", "-P", "-n", "-j", "1", "-S", "now-1hour", "-o", "jobid,jobname,partition,exitcode,maxrss"
    )
    assert steps == "1|wrap|default|6:0|\n1.batch|batch||6:0|\n"
    assert desk.typed("sacct", "-n", "-j", "2_2", "-o", "JobID,Elapsed").split()[0] == "2_2"

    # An array that runs, a job that waits for its devices, and a held one.
    desk.typed("sbatch", "-p", "main", "--gres=gpu:1", "-a", "7,8", "-J", "work", "--wrap", GATE)
    desk.typed("sbatch", "-p", "main", "-G2", "-J", "next", "--wrap", "true")
    desk.typed("sbatch", "-H", "-J", "parked", "--wrap", "true")
    desk.until(4, "running"), desk.until(5, "running")
    listed = desk.typed("squeue", "-h", "-p", "main", "-o", "%i %j %t %R %b")
    assert re.sub(r"R \S+ ", "R * ", listed) == (
        "6 next PD (Resources) gres:gpu:2\n4_7 work R * gres:gpu:1\n4_8 work R * gres:gpu:1\n"
    )
    assert desk.typed("squeue").splitlines()[0] == (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    )
    document = json.loads(desk.typed("squeue", "--json", "--me", "-t", "R"))["jobs"]
    assert [(job["array_job_id"], job["array_task_id"], job["job_state"]) for job in document] == [
        (4, 7, "RUNNING"), (4, 8, "RUNNING"),
    ]  # fmt: skip
    assert desk.typed("squeue", "-h", "-u", "nobody-else") == ""
    assert "Invalid job id specified" in desk.refused("squeue", "-j", "99").err
    assert desk.refused("squeue", "-t", "FOO").code == 2

    # What is cancelled, and what is not.
    assert (
        desk.program("scancel", "99").err == "scancel: error: Kill job error on job id 99: Invalid job id specified\n"
    )
    assert desk.refused("scancel").code == desk.refused("scancel", "abc").code == 2
    desk.typed("scancel", "4_8")
    desk.until(5, "cancelled")
    desk.typed("scancel", "-n", "next", "-t", "PD")
    assert desk.job(6)["state"] == "cancelled" and desk.job(4)["state"] == "running"
    desk.typed("scontrol", "release", "7")
    desk.until(7, "succeeded")
    desk.open_gate("gate")
    desk.until(4, "succeeded")

    # Nodes and partitions.
    worker = desk.typed("sinfo", "-h", "-o", "%n").split()[0]
    assert desk.typed("sinfo", "-h", "-o", "%P %a %D %t %G") == "default* up 1 idle gpu:2\nmain up 1 idle gpu:2\n"
    desk.ok("pause", "main")
    assert desk.typed("sinfo", "-h", "-p", "main", "-o", "%R %a %N") == f"main down {worker}\n"
    assert json.loads(desk.typed("sinfo", "--json"))["nodes"][0]["name"] == worker
    assert desk.typed("scontrol", "show", "hostnames", "a[1-2],b") == "a1\na2\nb\n"


def test_jobs_wait_and_go_back_with_slurms_reasons(desk: SlurmDesk) -> None:
    desk.env["GATE"] = str(desk.cwd / "gate")
    desk.ok("create-queue", "main", "--gpu=2", "--cpu=2")
    desk.ok("limit", "project:lab", "gpu=1")
    desk.env["SBATCH_PARTITION"] = "main"
    for words in (
        ("-J", "parent", "-A", "lab", "-G1", "-o", "%x-%j.out", "--wrap", f"{GATE}; exit $((3 * SLURM_RESTART_COUNT))"),
        ("-J", "child", "-d", "afterok:1", "--wrap", "true"),
        ("-J", "mend", "-d", "afternotok:1", "--wrap", "true"),
        ("-J", "parent", "-d", "singleton", "--wrap", "true"),
        ("-J", "tasks", "-a", "0-2%1", "-d", "after:1", "--wrap", GATE),
        ("-J", "over", "-A", "lab", "-G1", "--wrap", "true"),
    ):
        if words[1] == "child":
            desk.until(1, "running")
        desk.typed("sbatch", "-Q", *words)
    desk.until(5, "running")
    desk.typed("sbatch", "-Q", "-J", "later", "-b", "now+4", "--wrap", "true")
    assert desk.typed("squeue", "-h", "-t", "PD", "-o", "%i|%j|%r|%E") == (
        "2|child|Dependency|afterok:1(unfulfilled)\n"
        "3|mend|Dependency|afternotok:1(unfulfilled)\n"
        "4|parent|Dependency|afterany:1(unfulfilled)\n"
        "5_[1-2%1]|tasks|JobArrayTaskLimit|(null)\n"
        "8|over|AssocGrpGRES|(null)\n"
        "9|later|BeginTime|(null)\n"
    )
    # Back to the queue under the same id: the first run does not count.
    desk.typed("scontrol", "requeue", "1")
    eventually(lambda: desk.job(1)["attempt"] == 2 and desk.job(1)["state"] == "running", "the second run")
    for wrong, code in ((("requeue", "2"), 5), (("requeue", "99"), 3), (("requeue",), 2), (("foo",), 2)):
        assert desk.refused("scontrol", *wrong).code == code
    shown = desk.typed("scontrol", "show", "job", "1")
    for field in (
        "JobId=1 JobName=parent",
        "JobState=RUNNING Reason=None",
        "Restarts=1",
        f"StdOut={desk.cwd}/parent-1.out",
    ):
        assert field in shown, shown
    # What can be changed of a job that waits, all or nothing.
    assert "'Foo=1'" in desk.refused("scontrol", "update", "JobId=8", "TimeLimit=5", "Foo=1").err
    desk.typed("scontrol", "update", "JobId=8", "TimeLimit=1:00:00", "Priority=40", "JobName=new")
    shown = desk.typed("scontrol", "-o", "show", "job", "8")
    assert "TimeLimit=01:00:00" in shown and "Priority=40" in shown and "JobName=new" in shown, shown
    desk.typed("scancel", "8")
    assert desk.typed("sacct", "-P", "-n", "-j", "8", "-o", "state,elapsed") == f"CANCELLED by {os.getuid()}|00:00:00\n"
    desk.open_gate("gate")
    desk.ended(1, 2, 3, 4, 5, 6, 7, 9)
    assert desk.typed("sacct", "-X", "-P", "-n", "-j", "1,2,3,4,9", "-o", "jobid,state,exitcode,reason,restarts") == (
        "1|FAILED|3:0|NonZeroExitCode|1\n"
        "2|CANCELLED|0:0|DependencyNeverSatisfied|0\n"
        "3|COMPLETED|0:0|None|0\n4|COMPLETED|0:0|None|0\n9|COMPLETED|0:0|None|0\n"
    )


def test_srun_runs_a_command_now_or_in_its_job_and_signals_reach_steps(desk: SlurmDesk, tmp_path: Path) -> None:
    done = desk.program("srun", "-J", "now", "sh", "-c", "echo out $SLURM_JOB_NAME; echo err >&2; exit 4")
    assert (done.code, done.out) == (4, "out now\n"), done
    assert done.err.startswith("err\n") and done.err.endswith("task 0: Exited with exit code 4\n"), done
    assert desk.refused("srun", "-n", "4", "true").code == desk.refused("srun").code == 2
    desk.script(
        "steps.sh",
        "#SBATCH -o steps.out",
        "trap 'echo script got it' USR1",
        "srun -o step-%j.%s.out --export=ALL,X=5 sh -c 'echo $X $SLURM_STEP_ID'",
        "srun sh -c 'trap \"echo step got it; exit 3\" USR1; echo ready; while :; do sleep 0.02; done'",
        "echo code $?",
    )
    desk.typed("sbatch", "--export=NONE", "steps.sh")
    eventually(lambda: "ready" in desk.text("steps.out") if (desk.cwd / "steps.out").exists() else False, "the step")
    desk.typed("scancel", "2", "--signal", "USR1")
    desk.until(2, "succeeded")
    # A shell tells what becomes of its own child, which gets the signal, too.
    assert re.fullmatch("ready\n(User.*\n)?step got it\ncode 3\n", desk.text("steps.out"))
    assert desk.text("step-2.0.out") == "5 0\n"
    assert desk.log(2) == desk.text("steps.out")


def test_the_plain_names_are_linked_unless_they_would_hide_a_slurm(desk: SlurmDesk) -> None:
    foreign = desk.cwd / "foreign"
    foreign.mkdir()
    for name in ("sbatch", "python3"):
        (foreign / name).write_text("#!/bin/sh\n")
        (foreign / name).chmod(0o755)
    alone = {"PATH": str(Path(desk.env["PATH"].split(":")[0]).parent)}
    assert "--force" in desk.refuses(5, "slurm-alias", "names", env={"PATH": str(foreign)})
    assert not (desk.cwd / "names").exists()
    printed = desk.ok("slurm-alias", "names", env=alone)
    assert "export PATH=" in printed and len([*(desk.cwd / "names").iterdir()]) == 7
    assert desk.ok("slurm-alias", "names", "--force", env=alone) == printed
    assert "sbatch" in desk.refuses(5, "slurm-alias", "foreign", env=alone)
    assert (foreign / "sbatch").read_text() == "#!/bin/sh\n"
