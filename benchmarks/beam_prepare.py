"""The pipeline that makes a store, beside making it in memory.

    python -m benchmarks.beam_prepare --n_edges=4000000 --n_nodes=200000

Random edges between texts as ids, Parquet, in shards for the pipeline and in
one file for --mode=convert; both in a process of their own, start included.
The store must be the same.
"""

from __future__ import annotations

import filecmp
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from absl import app
from pyarrow import parquet

from adaptive_gcn import run_folder
from benchmarks.read_csv import N_EDGES, N_NODES, RECORD

N_SHARDS = 8

PROGRAMS = {
    "pipeline": ("adaptive_gcn.beam.prepare",),
    "memory": ("adaptive_gcn.main", "--mode=convert", "--to=store"),
}


def write_tables(folder: Path, n_edges: int, n_nodes: int) -> None:
    """The same rows in `folder`/memory and, as shards, `folder`/pipeline."""
    rng = np.random.default_rng(0)
    number = pa.array(np.arange(n_nodes))
    ids = pc.binary_join_element_wise("u", number.cast(pa.string()), "")
    sources, targets = rng.integers(0, n_nodes, (2, n_edges))
    parts = np.array(["train", "val", "test"])
    tables = {
        "edges": {"source": ids.take(sources), "target": ids.take(targets)},
        "nodes": {
            "id": ids,
            "label": rng.integers(0, 5, n_nodes),
            "split": parts[rng.integers(0, 3, n_nodes)],
            "x": rng.normal(size=n_nodes).astype(np.float32),
        },
    }
    for program, n_shards in (("memory", 1), ("pipeline", N_SHARDS)):
        (folder / program).mkdir()
        for name, columns in tables.items():
            table = pa.table(columns)
            step = -(-len(table) // n_shards)
            for i in range(n_shards):
                suffix = f"-{i:05d}" if n_shards > 1 else ""
                path = folder / program / f"{name}{suffix}.parquet"
                parquet.write_table(table.slice(i * step, step), path)


def measure(folder: Path, program: str) -> dict[str, float]:
    """Seconds by the wall and of the processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    words = [
        f"--dataset_dir={folder / program}",
        f"--output_dir={folder / program}_store",
    ]
    subprocess.run(
        [sys.executable, "-m", *PROGRAMS[program], *words],
        check=True,
        capture_output=True,
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "processor_seconds": busy}


def run(_: list[str]) -> None:
    """Measure both, compare what they made, and write the record."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, N_EDGES.value, N_NODES.value)
        results = {each: measure(folder, each) for each in PROGRAMS}
        stores = [folder / f"{each}_store" for each in PROGRAMS]
        arrays = [each.name for each in stores[0].glob("*.npy")]
        _, *different = filecmp.cmpfiles(*stores, arrays, shallow=False)
    if different != [[], []]:
        raise AssertionError(f"the stores differ: {different}")
    busy = [results[each]["processor_seconds"] for each in PROGRAMS]
    record = {
        "n_edges": N_EDGES.value,
        "n_nodes": N_NODES.value,
        "n_shards": N_SHARDS,
        **results,
        "processor_ratio": busy[0] / busy[1],
        "versions": run_folder.versions(),
        "machine": run_folder.machine(),
    }
    print(record)
    if RECORD.value:
        run_folder.write_json(Path(RECORD.value), record)


if __name__ == "__main__":
    app.run(run)
