"""The shim for machines with Python: the modules of `run` that it needs, as one text file, named by its contents."""

from __future__ import annotations

import functools
import hashlib
from importlib import resources

#: The modules of the bundle. They run with Python 3.8 or later, and import nothing else but the standard library.
MODULES = (
    "atomic_files",
    "core.printable",
    "core.result",
    "descriptors",
    "run.attempt_notes",
    "run.exit_record",
    "run.launcher",
    "run.lease_timer",
    "run.limits.time_limits",
    "run.log_cap",
    "run.lone_shim",
    "run.own_daemon",
    "run.processes",
    "run.rundir",
    "run.shim",
    "run.spawn",
    "run.suspension.notes",
    "run.suspension.stopped_tree",
    "run.which",
)

_PACKAGES = ("grassq", "grassq.core", "grassq.run", "grassq.run.limits", "grassq.run.suspension")

_LOADER = """\
import sys
from importlib.machinery import ModuleSpec


class Bundle:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return ModuleSpec(name, cls, is_package=not SOURCES[name]) if name in SOURCES else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__
        exec(compile(SOURCES[name], "<%s>" % name, "exec"), module.__dict__)


sys.meta_path.insert(0, Bundle)
from grassq.run import lone_shim

lone_shim.main(sys.argv[1:])
"""


@functools.cache
def text() -> bytes:
    """Return the whole bundle, in ASCII."""
    root = resources.files("grassq")
    sources = dict.fromkeys(_PACKAGES, "")
    for module in MODULES:
        *folders, file = module.split(".")
        sources[f"grassq.{module}"] = root.joinpath(*folders, f"{file}.py").read_text("utf-8")
    listed = "".join(f"    {name!a}: {source!a},\n" for name, source in sources.items())
    return f"SOURCES = {{\n{listed}}}\n{_LOADER}".encode("ascii")


@functools.cache
def name() -> str:
    """Return the name of the file there."""
    return f"shim-{hashlib.sha256(text()).hexdigest()}.py"
