"""The layers of the package: imports point down only, and each layer keeps to what is its own."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "grassq"

# Who may import whom. A layer may always import itself and errors; what is not listed here is not allowed.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "core": set(),
    "settings": {"core"},
    # What a daemon started now would use, for `grass config` and for the daemon itself.
    "configuration": {"settings", "core", "home"},
    "home": set(),
    "gc_pause": set(),
    "descriptors": set(),
    "pins": set(),
    # Whose process is at the other end of a connection on loopback.
    "peer_uid": set(),
    # The sockets there, for the page and for GPUPeasy's API.
    "loopback_sockets": set(),
    # The links with Slurm's plain names, for `grass slurm-alias` and for jobs of sbatch.
    "slurm_links": set(),
    "local_times": {"core"},
    "atomic_files": {"descriptors"},
    "store": {"core", "gc_pause", "atomic_files"},
    "run": {"atomic_files", "descriptors", "core"},
    "link": {"core"},
    "net": {"home", "core", "atomic_files", "pins"},
    "broker": {"core", "store", "gc_pause", "pins"},
    "worker": {"core", "run", "link", "files", "atomic_files", "pins"},
    "files": {"core", "atomic_files", "descriptors"},
    "machines": {"core", "run", "worker", "link", "files", "atomic_files", "descriptors"},
    # Reads what the broker has stored to be told, and sends it: beside the broker, below what people ask.
    "notify": {"core", "broker", "store", "atomic_files"},
    "web": {
        "core",
        "broker",
        "notify",
        "store",
        "run",
        "link",
        "machines",
        "gc_pause",
        "atomic_files",
        "local_times",
        "pins",
        "peer_uid",
        "loopback_sockets",
    },
    # The files that commands and programs read besides their words.
    "inputs": {"core"},
    "sdk": {"net", "home", "core", "gc_pause", "files", "inputs"},
    "daemon": {
        "core",
        "settings",
        "configuration",
        "home",
        "store",
        "broker",
        "worker",
        "run",
        "net",
        "web",
        "files",
        "machines",
        "notify",
        "atomic_files",
    },
    "cli": {
        "sdk",
        "net",
        "home",
        "core",
        "configuration",
        "daemon",
        "descriptors",
        "local_times",
        "files",
        "atomic_files",
        "slurm_links",
        "inputs",
    },
    "compat": {
        "sdk",
        "net",
        "home",
        "core",
        "cli",
        "descriptors",
        "files",
        "peer_uid",
        "loopback_sockets",
        "slurm_links",
        "inputs",
    },
    "__init__": {"sdk"},
    "__main__": {"cli"},
}

# Where a layer may use another one only in part: (importing module or layer, imported layer) to the packages or
# modules allowed.
ONLY: dict[tuple[str, str], set[str]] = {
    # What people type, how an attempt ended in words, and what a log shows; nothing of what is decided.
    ("cli", "core"): {
        "core.syntax",
        "core.outcome",
        "core.job_options",
        "core.printable",
        "core.term",
        "core.query",
        "core.sweeps",
    },
    ("compat", "core"): {"core.syntax", "core.outcome", "core.names", "core.batches"},
    ("sdk", "core"): {"core.syntax", "core.names", "core.outcome", "core.job_options", "core.printable", "core.sweeps"},
    ("inputs", "core"): {"core.syntax", "core.sweeps"},
    ("compat", "inputs"): {"inputs.files"},
    ("files", "core"): {"core.names"},  # how a path is quoted
    ("net", "core"): {"core.syntax", "core.printable"},
    # The shim reads what the command leaves as its result; a job can write the error of its own record.
    ("run", "core"): {"core.result", "core.printable"},
    # How things look on a terminal, and what ml-scheduler's files say of a machine.
    ("compat", "cli"): {"cli.logs.live_view", "cli.progress", "cli.job_text", "cli.render", "cli.inputs.machine_file"},
    ("cli", "daemon"): set(),
    ("cli.commands.daemon", "daemon"): {"daemon"},  # `grass daemon` is the daemon; it imports it when it runs
    ("cli.commands.store", "daemon"): {"daemon"},  # `grass store copy` needs the code that opens stores
    ("settings", "core"): {"core.names", "core.notices", "core.syntax"},  # the rules of notices are checked there
    ("notify", "store"): {"store.base"},  # how jobs are asked for
    ("web", "store"): {"store.base"},  # the shape of a submission, never the store itself
    # Whether a job's program is there, asked as the job will ask; and how words that are no text are written.
    ("web", "run"): {"run.which", "run.rundir", "run.log_files"},
    ("web", "machines"): {"machines.book", "machines.ssh.target"},  # what a machine is, never the way to it
}

#: How many files one package may hold besides its `__init__`.
PACKAGE_FILES_MAX = 15
#: Public classes that share a name on purpose: the SDK's `Job` is a handle to the core's `Job`.
SHARED_NAMES = {"Job"}

# The pure part: no clock, no chance, no process, no file, no network, no log.
PURE = {
    "__future__",
    "array",
    "binascii",
    "codecs",
    "bisect",
    "collections",
    "csv",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
}
PURE |= {
    "heapq",
    "hmac",
    "itertools",
    "json",
    "math",
    "msgspec",
    "operator",
    "re",
    "shlex",
    "tomllib",
    "typing",
    "unicodedata",
    "urllib",
}

# One colour per layer: asynchronous code lives here and nowhere else.
ASYNC = (
    "broker.engine",
    "broker.subscriptions",
    "link.",
    "machines.extra_logins",
    "machines.keeper",
    "machines.machine_thread",
    "machines.ssh_machine",
    "notify.bounded_command",
    "notify.notifier",
    "notify.outbox",
    "notify.senders",
    "notify.sweep_watch",
    "worker.local_logs",
    "worker.local_machine",
    "worker.machine",
    "worker.worker",
    "worker.broker_link",
    "worker.broker_session",
    "worker.devices",
    "web",
    "daemon",
)


@cache
def tree(module: str) -> ast.Module:
    """The syntax tree of a module, named without the package."""
    path = SOURCE / PACKAGE / module.replace(".", "/")
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8"))


def modules() -> list[str]:
    """Every module of the package, named without it."""
    found = []
    for file in sorted((SOURCE / PACKAGE).rglob("*.py")):
        parts = file.relative_to(SOURCE / PACKAGE).with_suffix("").parts
        found.append(".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts))
    return found


def imports(module: str) -> Iterator[str]:
    """What a module imports, anywhere in it: `os.path`, or `grassq.core.model` for a module or a name of one."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module} imports relatively"
            if node.module == PACKAGE or _is_package(node.module):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module


def _is_package(name: str) -> bool:
    return (SOURCE / name.replace(".", "/")).is_dir()


def own_imports(module: str) -> Iterator[str]:
    """What a module imports of the package, named without it."""
    known = set(modules())
    for name in imports(module):
        if name.startswith(f"{PACKAGE}."):
            short = name.removeprefix(f"{PACKAGE}.")
            if short in known:
                yield short


def layer(module: str) -> str:
    """The first part of a module's name."""
    return module.partition(".")[0]


def test_every_layer_is_in_the_table() -> None:
    assert {layer(module) for module in modules()} <= MAY_IMPORT.keys()


@pytest.mark.parametrize("module", modules())
def test_imports_point_down_only(module: str) -> None:
    mine = layer(module)
    for name in own_imports(module):
        other = layer(name)
        if other in (mine, "errors"):
            continue
        assert other in MAY_IMPORT[mine], f"{module} imports {name}: {mine} may use {sorted(MAY_IMPORT[mine])}"
        part = ONLY.get((module, other), ONLY.get((mine, other)))
        assert part is None or any(name == each or name.startswith(f"{each}.") for each in part), (
            f"{module} imports {name}: of {other} it may use {sorted(part)}"
        )


def test_the_table_has_no_circle() -> None:
    def below(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"{' -> '.join(path)} -> {name}"
        for other in MAY_IMPORT[name]:
            below(other, (*path, name))

    for name in MAY_IMPORT:
        below(name, ())


@pytest.mark.parametrize("module", [module for module in modules() if layer(module) == "core"])
def test_the_core_is_pure(module: str) -> None:
    for name in imports(module):
        top = name.partition(".")[0]
        assert top == PACKAGE or top in PURE, f"{module} imports {name}"


@pytest.mark.parametrize("module", [module for module in modules() if layer(module) == "core"])
def test_the_core_names_devices_in_one_table_only(module: str) -> None:
    if module == "core.syntax.resource_names":
        return
    texts = [node for node in ast.walk(tree(module)) if isinstance(node, ast.Constant)]
    spelled = [node.lineno for node in texts if node.value in ("gpu", b"gpu", b"CUDA_VISIBLE_DEVICES")]
    assert not spelled, f"{module} lines {spelled}"


@pytest.mark.parametrize("module", [module for module in modules() if layer(module) in ("run", "net")])
def test_what_runs_beside_jobs_and_in_every_command_is_plain_python(module: str) -> None:
    for name in imports(module):
        top = name.partition(".")[0]
        assert top == PACKAGE or top in sys.stdlib_module_names, f"{module} imports {name}"


@pytest.mark.parametrize("module", [module for module in modules() if layer(module) in ("web", "daemon")])
def test_only_the_engine_reaches_its_decider(module: str) -> None:
    for node in ast.walk(tree(module)):
        reaches = isinstance(node, ast.Attribute) and node.attr == "decider"
        assert not reaches, (
            f"{module} line {getattr(node, 'lineno', 0)}: the engine's thread owns it; use Engine.status"
        )


@pytest.mark.parametrize("module", modules())
def test_asynchronous_code_stays_in_its_places(module: str) -> None:
    if module.startswith(ASYNC):
        return
    used = {name.partition(".")[0] for name in imports(module)} & {"asyncio", "aiohttp"}
    assert not used, f"{module} imports {used}"
    assert not any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(tree(module))), module


@pytest.mark.parametrize("module", [module for module in modules() if module != "home"])
def test_the_environment_is_read_in_one_place(module: str) -> None:
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert node.attr not in ("environ", "environb", "getenv", "getenvb"), f"{module} line {node.lineno}"
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            assert not {alias.name for alias in node.names} & {"environ", "environb", "getenv"}, module


@pytest.mark.parametrize("module", [module for module in modules() if module != "cli.render"])
def test_printing_happens_in_one_place(module: str) -> None:
    for node in ast.walk(tree(module)):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        assert not called, f"{module} line {getattr(node, 'lineno', 0)} prints"


@pytest.mark.parametrize("module", modules())
def test_nothing_catches_everything_but_the_top_of_a_loop(module: str) -> None:
    allowed = {
        "broker.engine": 1,
        "broker.inbox": 1,  # one call of a batch
        "broker.decider": 1,  # one worker's message of a batch
        "cli.top.feeds.asker": 1,  # a thread of the screen: the screen ends and says why, with its terminal restored
        "compat.event_reader": 1,
        "notify.outbox": 1,  # one try of a lane; the notices behind it wait for the lane
        "notify.notifier": 1,  # one look at the store; what it did not tell stays there
        "machines.machine_thread": 1,  # one connection of a machine
        "web.forecast.recorder": 1,  # one look of many: a bug in a play must not end the recorder for good
        "web.removal": 1,  # one try of many: a bug in it must not leave all folders until the next start
        "web.live.hub": 1,  # the frames of one moment: a bug in them cuts the pages, which would look live
        "web.retention": 1,  # one look of many: a bug in it must not end the settings until the next start
        "sdk.job": 1,  # what a callback raises is logged: others wait for the same thread
        "worker.local_files.background": 1,  # one piece of work; others wait for its slot
        "worker.devices.detectors": 2,  # what another package's detector raises costs its own devices only
    }
    broad = [
        node.lineno
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception"))
    ]
    assert len(broad) <= allowed.get(module, 0), f"{module} lines {broad}"


@pytest.mark.parametrize("module", modules())
def test_functions_are_at_most_sixty_lines_and_files_about_four_hundred(module: str) -> None:
    nodes = [node for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [node.name for node in nodes if (node.end_lineno or 0) - node.lineno >= 60]
    assert not long, f"{module}: {long}"
    last = max((getattr(node, "end_lineno", 0) for node in tree(module).body), default=0)
    assert last <= 440, f"{module} has {last} lines"


def test_no_package_is_crowded() -> None:
    counts: dict[Path, int] = {}
    for file in (SOURCE / PACKAGE).rglob("*.py"):
        counts[file.parent] = counts.get(file.parent, 0) + (file.name != "__init__.py")
    crowded = {str(folder.relative_to(SOURCE)): count for folder, count in counts.items() if count > PACKAGE_FILES_MAX}
    assert not crowded


def test_no_two_public_classes_share_a_name() -> None:
    owners: dict[str, list[str]] = {}
    for module in modules():
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, []).append(module)
    shared = {name: where for name, where in owners.items() if len(where) > 1 and name not in SHARED_NAMES}
    assert not shared


@pytest.mark.parametrize("package", sorted({module.rpartition(".")[0] for module in modules()} - {""}))
def test_every_package_says_what_it_owns_imports_and_survives(package: str) -> None:
    text = ast.get_docstring(tree(package)) or ""
    assert 6 <= len(text.splitlines()) <= 20, f"{package}: a page of 6 to 20 lines"
    assert "import" in text.lower(), f"{package}: the page does not say what the package may import"
    assert "When " in text, f"{package}: the page has no failure story"


@pytest.mark.parametrize("package", sorted({module.rpartition(".")[0] for module in modules()} - {""}))
def test_the_page_of_a_package_names_each_of_its_files(package: str) -> None:
    text = ast.get_docstring(tree(package)) or ""
    inside = {
        module.removeprefix(f"{package}.").partition(".")[0] for module in modules() if module.startswith(f"{package}.")
    }
    missing = {name for name in inside if not re.search(rf"\b{name}\b", text)}
    assert not missing, f"{package}: its page does not say what these files do"
