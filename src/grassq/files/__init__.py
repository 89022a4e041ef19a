"""Trees of files by content: what a job is sent and what comes back.

A manifest names a tree: each path with its mode, size and hash. The contents lie once in a folder of blobs, by hash.
Clients make snapshots, workers make trees of them, and what comes from another machine is unpacked here. `snapshot.py`
makes a `manifest.py` and `blobs.py`, without what `ignore.py` leaves out, and `stat_cache.py` spares it to read files
again. `materialise.py` makes a tree. `tar_format.py` and `unpack.py` read archives; `patterns.py` and `globs.py` say
what is fetched, `place.py` puts files where they are wanted, `names.py` checks names, and `disk.py` knows the disk.

May import `core.names`, `atomic_files` and `descriptors`; light to import.

When something fails half-way, nothing is there: a tree is made aside and renamed when it is whole. Names and links
from outside never leave the folder they are for.
"""
