"""simple_gpu_scheduler: reads one command a line from stdin and runs each on a GPU of its own.

Enter at `entry.py`. `arguments.py` reads the words, `command_reader.py` the lines of stdin, `line_submitter.py`
stores them as jobs of a temporary queue with one slot per GPU. `event_reader.py` receives what happens in the queue
on a thread, `job_table.py` keeps what is known of each job, `output.py` and `messages.py` print, `signals.py` handles
ctrl-C. `scheduler.py` is the loop that joins them.

May import what `grassq.compat` may.

When the scheduler is killed with SIGKILL, every line it read is either stored as a job or in its note of lines in
flight. The queue works its jobs off and then goes; the next call prints what became of each line (`killed_runs.py`).
"""
