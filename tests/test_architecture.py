"""The layers of the package: imports point down only, and each layer keeps to what is its own."""

from __future__ import annotations

import ast
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
    "settings": set(),
    "home": set(),
    "garbage": set(),
    "store": {"core", "garbage"},
    "run": set(),
    "net": {"home", "core"},
    "broker": {"core", "store", "garbage"},
    "worker": {"core", "run"},
    "web": {"core", "broker", "store", "run", "garbage"},
    "sdk": {"net", "home", "garbage"},
    "daemon": {"core", "settings", "home", "store", "broker", "worker", "run", "net", "web"},
    "cli": {"sdk", "net", "home", "core", "daemon"},
    "compat": {"sdk", "net", "home", "core", "cli"},
    "__init__": {"sdk"},
    "__main__": {"cli"},
}

# Where a layer may use another one only in part: (importing module or layer, imported layer) to the modules allowed.
ONLY: dict[tuple[str, str], set[str]] = {
    # How long `wait` and `kill` were told to wait, and how a store is named; nothing of what is decided.
    ("cli", "core"): {"core.durations", "core.urls"},
    # A search, which options of `enqueue` have a word of their own behind them, and how many lines it takes.
    ("cli.sweep", "core"): {"core.sweep", "core.options", "core.lines"},
    # How things look on a terminal; and the same kind of parsers.
    ("compat", "cli"): {"cli.bar", "cli.format", "cli.render"},
    ("compat", "core"): {"core.slot_words", "core.sweep", "core.template"},
    ("cli", "daemon"): set(),
    ("cli.daemon", "daemon"): {"daemon"},  # `grass daemon` is the daemon; it imports it when it runs
    ("cli.store", "daemon"): {"daemon"},  # `grass store copy` is done by who knows the stores
    ("net", "core"): {"core.addresses", "core.codes"},  # how a broker's address and a join code are written
    ("web", "store"): {"store.base"},  # the shape of a submission, never the store itself
    # Whether a job's program is there, asked as the job will ask; and how words that are no text are written.
    ("web", "run"): {"run.programs", "run.rundir"},
}

# The pure part: no clock, no chance, no process, no file, no network, no log.
PURE = {
    "__future__",
    "array",
    "binascii",
    "bisect",
    "collections",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
}
PURE |= {"heapq", "itertools", "json", "math", "msgspec", "operator", "re", "typing", "urllib"}

# One colour per layer: asynchronous code lives here and nowhere else.
ASYNC = (
    "broker.engine",
    "broker.watch",
    "worker.local",
    "worker.link",
    "worker.talk",
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
    """What a module imports, anywhere in it: `os.path`, or `grassq.core.board` for a module or a name of one."""
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
        assert part is None or name in part, f"{module} imports {name}: of {other} it may use {sorted(part)}"


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


@pytest.mark.parametrize("module", [module for module in modules() if layer(module) in ("run", "net")])
def test_what_runs_beside_jobs_and_in_every_command_is_plain_python(module: str) -> None:
    for name in imports(module):
        top = name.partition(".")[0]
        assert top == PACKAGE or top in sys.stdlib_module_names, f"{module} imports {name}"


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
    allowed = {"broker.engine": 1, "compat.simple_gpu_scheduler.ear": 1}
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
