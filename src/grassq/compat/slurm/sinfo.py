"""sinfo: queues as partitions, workers as nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from grassq.cli.render import clean, document, text
from grassq.compat.slurm.formats import read_format, table
from grassq.compat.slurm.sbatch import answered
from grassq.compat.slurm.submission.options import Reader, Typed, described
from grassq.core.names import DEFAULT_QUEUE, shown
from grassq.errors import BadInput
from grassq.net.client import ApiClient

PROGRAM = "sinfo"
DEFAULT = "%#P %.5a %.10l %.6D %.6t %N"
BY_NODE = "%#N %.6D %#P %6t"
SUMMARY = "%#P %.5a %.10l %.16F %N"
OPTIONS = described(
    "dead/d format/o= json Node/N nodes/n= noheader/h partition/p= responding/r states/t= summarize/s",
    "all/a exact/e long/l verbose/v sort/S= clusters/M=",
)
#: The short word of each state of a node.
SHORT = {"idle": "idle", "mixed": "mix", "allocated": "alloc", "drained": "drain", "draining": "drng", "down*": "down*"}

Worker = dict[str, Any]


class NodeRow(NamedTuple):
    """Some nodes of a partition that are in one state, or one node."""

    partition: str
    available: str
    state: str
    nodes: Sequence[Worker]


def run(client: ApiClient, argv: list[str]) -> int:
    """Run one call."""
    reader = Reader(PROGRAM, OPTIONS)
    typed, words = reader.read_mixed(argv)
    if answered(PROGRAM, typed, "Usage: sinfo [OPTIONS...]\n", reader):
        return 0
    if words:
        raise BadInput(f"Unrecognized option: {shown(words[0])}")
    fleet = client.get("show", brief=1)
    rows = _chosen(_rows(fleet), typed)
    if "json" in typed:
        return document(_document(fleet))
    if "Node" in typed:
        rows = [row._replace(nodes=[node]) for row in rows for node in row.nodes]
        rows.sort(key=lambda row: str(row.nodes[0]["name"]))
    elif "summarize" in typed:
        every: dict[str, NodeRow] = {}
        for row in rows:
            before = every.get(row.partition)
            every[row.partition] = row if before is None else before._replace(nodes=[*before.nodes, *row.nodes])
        rows = [*every.values()]
    usual = BY_NODE if "Node" in typed else SUMMARY if "summarize" in typed else DEFAULT
    columns = read_format(typed.get("format") or usual, _FIELDS, "--format")
    return text("".join(clean(line) + "\n" for line in table(columns, _FIELDS, rows, header="noheader" not in typed)))


def node_state(worker: Worker) -> str:
    """Return the state of a worker as that of a node."""
    if not worker["online"]:
        return "down*"
    if worker["drained"]:
        return "draining" if worker["jobs"] else "drained"
    if not worker["jobs"]:
        return "idle"
    free = [_sum(worker["free"].get(name)) for name in ("cpu", "gpu") if name in worker["capacity"]]
    return "allocated" if any(amount <= 0 for amount in free) else "mixed"


def _sum(amount: Any) -> float:
    return float(sum(amount.values()) if isinstance(amount, dict) else amount or 0)


def _rows(fleet: dict[str, Any]) -> list[NodeRow]:
    workers = {worker["name"]: worker for worker in fleet["workers"]}
    paused = frozenset(fleet.get("paused") or ())
    places: dict[str, list[Worker]] = {}
    if not any(queue["name"] == DEFAULT_QUEUE for queue in fleet["queues"]):
        places[DEFAULT_QUEUE] = [*workers.values()]  # every worker takes its jobs
    for queue in fleet["queues"]:
        places.setdefault(queue["name"], []).extend([workers[queue["worker"]]] if queue["worker"] in workers else [])
    rows = []
    for name, nodes in places.items():
        available = "down" if name in paused or "" in paused else "up"
        states: dict[str, list[Worker]] = {}
        for node in nodes:
            states.setdefault(node_state(node), []).append(node)
        rows += [NodeRow(name, available, state, group) for state, group in states.items()] or [
            NodeRow(name, available, "n/a", [])
        ]
    return rows


def _chosen(rows: list[NodeRow], typed: Typed) -> list[NodeRow]:
    if "partition" in typed:
        rows = [row for row in rows if row.partition in typed["partition"].split(",")]
    if "states" in typed:
        wanted = typed["states"].lower().split(",")
        rows = [row for row in rows if {row.state, SHORT.get(row.state, row.state), row.state.rstrip("*")} & {*wanted}]
    if "nodes" in typed:
        names = typed["nodes"].split(",")
        rows = [row._replace(nodes=[node for node in row.nodes if node["name"] in names]) for row in rows]
        rows = [row for row in rows if row.nodes]
    if "dead" in typed or "responding" in typed:
        rows = [row for row in rows if (row.state == "down*") == ("dead" in typed)]
    return rows


def _amount(row: NodeRow, name: str) -> float:
    return max((_sum(node["capacity"].get(name)) for node in row.nodes), default=0.0)


def _counts(row: NodeRow) -> str:
    states = [node_state(node) for node in row.nodes]
    busy, idle = sum(state in ("allocated", "mixed", "draining") for state in states), states.count("idle")
    return f"{busy}/{idle}/{len(states) - busy - idle}/{len(states)}"


def _cpus(row: NodeRow) -> str:
    total = sum(_sum(node["capacity"].get("cpu")) for node in row.nodes)
    idle = sum(_sum(node["free"].get("cpu")) for node in row.nodes if node["online"])
    other = sum(_sum(node["capacity"].get("cpu")) for node in row.nodes if not node["online"])
    return f"{total - idle - other:g}/{idle:g}/{other:g}/{total:g}"


def _gres(row: NodeRow) -> str:
    gpus = _amount(row, "gpu")
    return f"gpu:{gpus:g}" if gpus else "(null)"


def _labels(row: NodeRow) -> str:
    return ",".join(sorted({str(label) for node in row.nodes for label in node["labels"]}))


_FIELDS: Mapping[str, tuple[str, Callable[[NodeRow], str]]] = {
    "P": ("PARTITION", lambda row: row.partition + ("*" if row.partition == DEFAULT_QUEUE else "")),
    "R": ("PARTITION", lambda row: row.partition),
    "a": ("AVAIL", lambda row: row.available),
    "l": ("TIMELIMIT", lambda row: "infinite"),
    "D": ("NODES", lambda row: str(len(row.nodes))),
    "t": ("STATE", lambda row: SHORT.get(row.state, row.state)),
    "T": ("STATE", lambda row: row.state),
    "N": ("NODELIST", lambda row: ",".join(str(node["name"]) for node in row.nodes)),
    "n": ("HOSTNAMES", lambda row: ",".join(str(node["name"]) for node in row.nodes)),
    "c": ("CPUS", lambda row: f"{_amount(row, 'cpu'):g}"),
    "m": ("MEMORY", lambda row: f"{_amount(row, 'mem'):g}"),
    "G": ("GRES", _gres),
    "F": ("NODES(A/I/O/T)", _counts),
    "A": ("NODES(A/I)", lambda row: "/".join(_counts(row).split("/")[:2])),
    "C": ("CPUS(A/I/O/T)", _cpus),
    "E": ("REASON", lambda row: "none"),
    "f": ("AVAIL_FEATURES", lambda row: _labels(row) or "(null)"),
}


def _document(fleet: dict[str, Any]) -> dict[str, Any]:
    """Return the nodes in the fields of Slurm's JSON."""
    nodes = []
    for worker in fleet["workers"]:
        partitions = sorted({queue["name"] for queue in fleet["queues"] if queue["worker"] == worker["name"]})
        row = NodeRow("", "", "", [worker])
        nodes.append(
            {
                "name": worker["name"],
                "hostname": worker["name"],
                "state": node_state(worker).rstrip("*"),
                "partitions": partitions,
                "cpus": _amount(row, "cpu"),
                "real_memory": _amount(row, "mem"),
                "gres": _gres(row),
                "features": ",".join(worker["labels"]),
                "running_jobs": worker["jobs"],
            }
        )
    return {"errors": [], "nodes": nodes}
