"""simple_gpu_scheduler: reads one command per line from stdin and runs each command on its own GPU.

Enter at `entry.py`. `arguments.py` reads the arguments, `command_reader.py` the lines of stdin. `line_submitter.py`
stores the lines as jobs of a temporary queue with one slot per GPU. `job_table.py` keeps the state of each job, and
`output.py` prints. `scheduler.py` is the main loop.

May import what `grassq.compat` may.

When the scheduler is killed with SIGKILL, every line it has read is stored either as a job or in its file of lines in
flight. The queue runs its jobs and is then removed; the next call reports the result of each line (`killed_runs.py`).
"""
