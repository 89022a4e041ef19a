"""Trees of files by content: what a job is sent and what comes back.

A manifest names a tree: each path with its mode, size and hash. The contents lie once in a folder of blobs, by hash.
Clients make snapshots, workers make trees of them, and what comes from another machine is unpacked here.

May import `core.names`, `atomic_files` and `descriptors`; light to import.

When something fails half-way, nothing is there: a tree is made aside and renamed when it is whole. Names and links
from outside never leave the folder they are for.
"""
