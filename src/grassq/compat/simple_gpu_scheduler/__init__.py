"""simple_gpu_scheduler: a command per line on stdin, each run on one of the GPUs that were named."""
