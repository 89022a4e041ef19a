"""execute_batch and execute_remote, the commands of ml-scheduler: the lines of a file as jobs on machines over ssh.

Enter at `entry.py`. `arguments.py` reads the arguments, `batch_file.py` the lines. `machines.py` makes the machines
workers of the local daemon and asks what they have free; `slots.py` decides how many jobs run there at a time, beside
the batches of `held_slots.py`. `copies.py` stores what is sent, `job_document.py` makes the jobs, `queue.py`
their queue. `batch.py` is one call of execute_batch, `job_watch.py` watches its jobs, `results.py`
puts their results in place, `output.py` has the printed lines. `remote.py` is one call of execute_remote.

May import what `grassq.compat` may, and `files`.

When execute_batch is killed, its jobs go on: `note.py` has which job each line is, and the same call goes on with them.
A line is done when its results are complete and its folder in job_results has its name; until then they are aside.
"""
