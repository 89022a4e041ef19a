"""submitit and Hydra submit to Grass by Slurm's names, unchanged."""

from __future__ import annotations

import pickle
import sys

from tests.compat.slurm.slurm_desk import SlurmDesk

#: A job that never ends by itself: it gets USR2 before its time limit, keeps where it was, and asks for another run.
SUBMITIT = """\
import os
import time
import submitit

class Train:
    def __init__(self, step=0):
        self.step = step

    def __call__(self):
        while not self.step:
            time.sleep(0.02)
        return self.step, os.environ["SLURM_JOB_ID"], os.environ["SLURM_RESTART_COUNT"]

    def checkpoint(self):
        return submitit.helpers.DelayedSubmission(Train(self.step + 1))

def square(x):
    assert os.environ["SLURM_JOB_NUM_NODES"] == "1"
    return x * x

executor = submitit.AutoExecutor(folder="logs", cluster="slurm")
executor.update_parameters(timeout_min=2, slurm_partition="main", gpus_per_node=1, cpus_per_task=1, name="squares")
if __name__ == "__main__":
    long = submitit.AutoExecutor(folder="logs", cluster="slurm")
    long.update_parameters(timeout_min=1, slurm_partition="main", slurm_signal_delay_s=55, name="train")
    train = long.submit(Train())
    jobs = executor.map_array(square, [3, "text"])
    print([job.job_id for job in jobs], jobs[0].result(), "can't multiply" in str(jobs[1].exception()))
    print(jobs[0].stdout().count("Job completed successfully"))
    print(train.job_id)
"""
APP = """\
import os
import hydra

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    with open(os.environ["OUT"] + f"/lr-{cfg.lr}", "w") as file:
        file.write(os.environ["SLURM_ARRAY_TASK_ID"])

if __name__ == "__main__":
    main()
"""
CONFIG = """\
defaults:
  - override hydra/launcher: submitit_slurm
lr: 1
hydra:
  launcher: {partition: main, timeout_min: 5, tasks_per_node: 1, cpus_per_task: 1}
"""


def test_submitit_and_hydra_run_on_it(desk: SlurmDesk) -> None:
    desk.ok("create-queue", "main", "--gpu=2", "--cpu=2")
    (desk.cwd / "squares.py").write_text(SUBMITIT)
    printed = desk.typed(sys.executable, "squares.py")
    assert printed.splitlines() == ["['2_0', '2_1'] 9 True", "1", "1"]
    assert [job["state"] for job in desk.ended(2, 3)] == ["succeeded", "failed"]
    (desk.cwd / "app.py").write_text(APP)
    (desk.cwd / "config.yaml").write_text(CONFIG)
    desk.env["OUT"] = str(desk.cwd)
    desk.typed(sys.executable, "app.py", "-m", "lr=1,2")
    assert (desk.text("lr-1"), desk.text("lr-2")) == ("0", "1")
    (train,) = desk.ended(1)
    assert (train["state"], train["attempt"], len(train["attempts"])) == ("succeeded", 2, 2), train
    assert pickle.loads((desk.cwd / "logs" / "1_0_result.pkl").read_bytes()) == ("success", (1, "1", "1"))
