# Runs on the machine: this file was sent there with everything else in the current directory.
echo "hello from $(hostname), in $(basename "$PWD")"
date > when.txt # comes back to job_results
