"""Reading 10^7 edges from a CSV file: seconds and memory.

    python -m benchmarks.read_csv --record=benchmarks/records/read_csv.json

The edges are random, weighted or not, their ids integers or texts. `table` is
reading edges.csv; `graph` is all of it: both tables, the matrix and its checks,
with the compilation of what is not in numba's cache. Each pair is read in a
process of its own, whose peak memory is that of the whole: Python, libraries,
the table and the graph.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from absl import app, flags

from adaptive_gcn import run_folder
from adaptive_gcn.datasets.columns import Columns
from adaptive_gcn.datasets.edge_files import read_edges
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.folder import read_folder
from adaptive_gcn.datasets.folder_options import FolderOptions
from adaptive_gcn.split_rule import SplitRule

RECORD = flags.DEFINE_string("record", "", "JSON record to write")
N_EDGES = flags.DEFINE_integer("n_edges", 10**7, "edges of the file")
N_NODES = flags.DEFINE_integer("n_nodes", 10**6, "nodes of the file")

KINDS = ("integers", "texts", "weights")


def write_pair(folder: Path, kind: str, n_edges: int, n_nodes: int) -> int:
    """Write edges.csv and nodes.csv; returns the size of the first."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, n_nodes, (2, n_edges), np.int32)
    ids: Any = pa.array(np.arange(n_nodes, dtype=np.int32))
    if kind == "texts":
        ids = pc.binary_join_element_wise("u", ids.cast(pa.string()), "")
    columns = {"source": ids.take(ends[0]), "target": ids.take(ends[1])}
    if kind == "weights":  # The same for both directions of an edge.
        columns["weight"] = pa.array((ends.sum(axis=0) % 8 + 1) / 8)
    pa_csv.write_csv(pa.table(columns), folder / "edges.csv")
    labels = pa.array(rng.integers(0, 5, n_nodes))
    nodes = pa.table({"id": ids, "label": labels})
    pa_csv.write_csv(nodes, folder / "nodes.csv")
    return (folder / "edges.csv").stat().st_size


def measure(folder: str) -> dict[str, Any]:
    """Read the pair, in this process."""
    start = _clocks()
    edges = Path(folder, "edges.csv")
    n_read = len(read_edges(edges, Columns.parse(""), Faults()).sources)
    table = _clocks() - start
    start = _clocks()
    rule = SplitRule.parse("random:0.6/0.2/0.2")
    options = FolderOptions(missing_features="constant", split=rule)
    graph = read_folder(folder, options)
    whole = _clocks() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "edges_read": n_read,
        "undirected_edges": graph.n_edges,
        "seconds_table": table[0],
        "processor_seconds_table": table[1],
        "seconds_graph": whole[0],
        "processor_seconds_graph": whole[1],
        "peak_gib": peak / 2**30,
    }


def _clocks() -> Any:
    """Seconds by the wall and of the processors, all threads together."""
    return np.array([time.perf_counter(), time.process_time()])


def run(_: list[str]) -> None:
    """Measure each kind of file and write the record."""
    results = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            size = write_pair(Path(folder), kind, N_EDGES.value, N_NODES.value)
            program = (
                "import json, sys; from benchmarks import read_csv; "
                "print(json.dumps(read_csv.measure(sys.argv[1])))"
            )
            done = subprocess.run(
                [sys.executable, "-c", program, folder],
                check=True,
                capture_output=True,
                text=True,
            )
        results[kind] = {"bytes": size, **json.loads(done.stdout)}
        print(kind, results[kind], flush=True)
    if RECORD.value:
        record = {
            "n_edges": N_EDGES.value,
            "n_nodes": N_NODES.value,
            "files": results,
            "versions": run_folder.versions(),
            "machine": run_folder.machine(),
        }
        run_folder.write_json(Path(RECORD.value), record)


if __name__ == "__main__":
    app.run(run)
