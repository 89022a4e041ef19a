"""From the words of sbatch or srun, and a script, to job documents. Nothing here reads a clock, a file or the network.

Enter at `job_document.py`. `options.py` has the table of options and reads words by it. `script.py` reads a batch
script. `values.py` reads amounts and times, `begin.py` the times of --begin, `arrays.py` the tasks of an array, and
`dependencies.py` what a job waits for. `starter.py` has the lines of shell that a job begins with.

May import what `grassq.compat` may.

When something cannot be kept, BadInput names the option, and in a script the line; nothing is submitted then.
"""
