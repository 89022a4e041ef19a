"""`python -m grassq` is the same as `grass`."""

from __future__ import annotations

import sys

from grassq.cli.fast import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
