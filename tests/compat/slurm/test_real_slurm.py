"""The same scripts by Grass and by a real Slurm: the same output and the same codes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.compat.slurm.real_slurm import RealSlurm
from tests.compat.slurm.slurm_desk import SlurmDesk
from tests.e2e.world import eventually

TRAIN = """\
#!/bin/bash
# An ordinary training script.
#SBATCH --job-name=train   # its name
#SBATCH -p main
#SBATCH --gres=gpu:1 -c 1
#SBATCH --time=0-00:05:00
#SBATCH --output=logs/%x-%j.out
echo "$# [$1] [$2] ${0##*/}"
echo $SLURM_JOB_ID $SLURM_JOBID $SLURM_JOB_NAME $SLURM_JOB_PARTITION $SLURM_NNODES $SLURM_JOB_NUM_NODES $SLURM_PROCID
echo $SLURM_LOCALID $SLURM_NODEID $SLURM_CPUS_ON_NODE $SLURM_CPUS_PER_TASK $SLURM_GPUS_ON_NODE $SLURM_TASKS_PER_NODE
[ "$SLURM_SUBMIT_DIR" = "$PWD" ] && echo here ${SLURM_ARRAY_TASK_ID-none} ${SLURM_RESTART_COUNT-none} $ENVIRONMENT
srun echo a step
srun sh -c 'echo $SLURM_PROCID $SLURM_STEP_ID $SLURM_NTASKS; exit 3' 2>/dev/null
echo step $?
echo error >&2
exit 7
"""
TASKS = """\
#!/bin/sh
#SBATCH --array=1-5:2
#SBATCH -p main
echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX
echo $SLURM_ARRAY_TASK_STEP
exit $SLURM_ARRAY_TASK_ID
"""
PYTHON = """\
#!/usr/bin/env python3
#SBATCH -p main
import os, sys
print(os.environ["SLURM_JOB_NAME"], os.environ["X"], sys.argv[1:], os.getcwd()[-4:])
print("to stderr", file=sys.stderr)
"""


def run_all(folder: Path, env: Mapping[str, str]) -> dict[str, object]:
    """Type the same commands, wait, and return everything that came of them."""
    seen: dict[str, object] = {}
    for name in ("elsewhere", "logs"):
        (folder / name).mkdir()
    for name, content in (("train.sh", TRAIN), ("tasks.sh", TASKS), ("job.py", PYTHON), ("bare.sh", "echo\n")):
        (folder / name).write_text(content)

    def typed(*words: str, stdin: str | None = None) -> tuple[int, str]:
        done = subprocess.run(
            words, cwd=folder, env=env, input=stdin or "", capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout

    def submit(name: str, *words: str, stdin: str | None = None) -> None:
        seen[name] = typed("sbatch", *words, stdin=stdin)

    submit("script", "train.sh", "one word", "")
    (folder / "train.sh").write_text("#!/bin/sh\necho edited later\n")
    submit("files", "-o", "o-%A.txt", "-e", "e-%j.txt", "-D", "elsewhere", "--export=ALL,X=4", "job.py", "a", "b c")
    submit("stdin", "-J", "piped", "-o", "%x.out", stdin="#!/bin/sh\n#SBATCH -p main\necho piped ${SLURM_JOB_NAME}\n")
    (folder / "more.txt").write_text("there\n")
    submit("append", "-o", "more.txt", "--open-mode=append", "-p", "main", "--wrap", "echo more; exit 1")
    submit("held", "-H", "-J", "parked", "-p", "main", "--wrap", "true")
    seen["squeue"] = typed("squeue", "-h", "-n", "parked", "-o", "%.5j|%t|%T|%r|%R|%l|%D|%P")
    submit("later", "-b", "now+1hour", "-J", "later", "-p", "main", "-t", "7", "-o", "%x-%j.txt", "--wrap", "true")
    submit("behind", "-d", "singleton", "-J", "later", "-p", "main", "--wrap", "true")
    eventually(lambda: "Dependency" in typed("squeue", "-h", "-n", "later", "-o", "%r")[1], "the reason")
    seen["waiting"] = typed("squeue", "-h", "-n", "later", "-o", "%t|%r|%l|%M|%L")
    job = str(seen["later"]).split()[-1].removesuffix("\\n')")
    line = typed("scontrol", "-o", "show", "job", job)[1].replace(str(folder), "")
    seen["fields"] = re.findall(
        r"\b(?:JobName|JobState|Reason|Dependency|Restarts|BatchFlag|ExitCode|RunTime|TimeLimit|EndTime|NumNodes|NumCPUs|"
        r"NumTasks|Command|WorkDir|StdErr|StdIn|StdOut|UserId|GroupId|Partition|NodeList)=\S*",
        re.sub("EndTime=2\\S+", "EndTime=T", line),
    )
    wrong = ["requeue", job], ["requeue", "999"], ["show", "job", "999"], ["foo"]
    seen["refused"] = [typed("scontrol", *words)[0] != 0 for words in wrong]
    seen["cancelled"] = typed("scancel", "-n", "parked"), typed("scancel", "-n", "later")
    submit("array", "--parsable", "tasks.sh")
    for name, *words in (["no file", "gone.sh"], ["no script", "bare.sh"], ["no time", "-t", "x", "train.sh"]):
        seen[name] = typed("sbatch", *words)[0] != 0

    # Slurm gives an id to each dry run.
    tests = ["-G1"], ["-b", "now+1hour"], ["-G9"], ["-p", "nowhere"]
    seen["tests"] = [typed("sbatch", "--test-only", "-p", "main", *words, "--wrap", "true") for words in tests]

    def is_over() -> bool:
        return typed("squeue", "-h", "-o", "%i")[1] == ""

    eventually(is_over, "the jobs end")
    shown = typed("scontrol", "-o", "show", "job")[1].splitlines()
    seen["ends"] = sorted(
        re.findall(r"(?:ArrayTaskId|JobName|JobState|ExitCode|Partition)=\S+", line) for line in shown
    )
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.suffix in (".out", ".txt"):
            seen[str(file.relative_to(folder))] = file.read_text()
    return seen


def test_the_same_scripts_have_the_same_output_and_codes(desk: SlurmDesk, real_slurm: RealSlurm) -> None:
    desk.ok("create-queue", "main", "--gpu=2", "--cpu=2")
    theirs = real_slurm.folder / "work"
    theirs.mkdir()
    with ThreadPoolExecutor() as both:
        ours, real = both.map(run_all, (desk.cwd, theirs), (desk.env, real_slurm.env))
    assert ours == real
    assert real["script"] == (0, "Submitted batch job 1\n") and "logs/train-1.out" in real  # and something was compared
