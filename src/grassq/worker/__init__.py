"""The worker: it offers one machine's capacity to one broker and runs what it is ordered to."""
