"""Slurm's words: sbatch, squeue, scancel, sinfo, srun, sacct and scontrol, for one node and one task per job.

Enter at `entry.py`, which has a function for each command. `submission` turns what was typed and a script into job
documents; `sbatch.py` and `srun.py` submit them. `slurm_jobs.py` finds jobs by Slurm's ids, `job_view.py` tells a job
of Grass in Slurm's words, `standing.py` finds why queued jobs wait, `job_lines.py` writes a job line by line, and
`formats.py` writes tables. `squeue.py`, `scancel.py`, `sinfo.py`, `sacct.py` and `scontrol.py` are the commands,
`signals.py` sends a signal to a job on this machine. `grassq.slurm_links` links the plain names.

May import what `grassq.compat` may.

When a word is wrong, nothing is submitted and the exit code is 2; other messages and codes are Slurm's. A script is
stored with its job, and each job starts it from its run dir (ADR 043), so a command that was killed leaves nothing.
"""
