"""Lists of edges too large for one machine -> a store.

    python -m adaptive_gcn.beam.prepare --dataset_dir=FOLDER \
        --output_dir=STORE [--beam_pipeline_options=runner=...]

The folder is one of docs/own_graph.md, its edges and nodes in one file each or
in shards, docs/large_graphs.md. All workers must see both folders under the
names given. The store is the one that --mode=convert --to=store makes of the
same rows in single files.
"""

from __future__ import annotations

import logging
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
from absl import app, flags
from absl import logging as absl_logging

from adaptive_gcn import main, run_folder
from adaptive_gcn.adjacency import EdgeStatistics, csr_matrix_of
from adaptive_gcn.beam import edges, node_shards, options
from adaptive_gcn.beam.findings import Findings, Write
from adaptive_gcn.beam.node_shards import NodeShards
from adaptive_gcn.beam.shards import check_pairs, find_shards
from adaptive_gcn.config import Config
from adaptive_gcn.datasets import (
    data_warnings,
    node_files,
    store,
    table_graph,
    tables,
)
from adaptive_gcn.datasets.assemble import assemble, degree_features
from adaptive_gcn.datasets.columns import Columns
from adaptive_gcn.datasets.faults import Faults, FaultyDataError
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.datasets.npy_stream import write_blocks
from adaptive_gcn.errors import DataError
from adaptive_gcn.features import row_blocks
from adaptive_gcn.graph import Graph
from adaptive_gcn.loading import USER_ERRORS
from adaptive_gcn.split_rule import SplitRule

_LOG = logging.getLogger("adaptive_gcn.beam.prepare")  # Run as __main__.

_BUCKET_IDS = 2**18  # Ids that a worker holds at a time, about.
_Paths = Sequence[pathlib.Path]


def prepare(config: Config) -> str:
    """Make a store of the folder `dataset_dir`.

    Returns:
        A line for people: what was written, and where.

    Raises:
        FaultyDataError: With every kind of fault that was found.
        DataError: If the folder is of another form, or the target taken.
        OSError: If something cannot be read or written.
    """
    target = pathlib.Path(config.output_dir)
    try:
        store.check_free(target, config.overwrite)
    except DataError as error:
        raise type(error)(f"--output_dir={target}: {error}") from error
    parent = target.resolve().parent
    run_folder.make_writable(parent, f"--output_dir={target}")
    prefix = f".{target.name}.beam-"
    with (
        tempfile.TemporaryDirectory(dir=parent, prefix=prefix) as work,
        data_warnings.kept() as warnings,
    ):
        graph = Preparation(config, pathlib.Path(work)).graph()
        store.write_store(graph, target, "folder", config.overwrite, warnings)
    return (
        f"{graph.name} is in {target} as store: {graph.n_nodes} nodes, "
        f"{graph.n_edges} edges"
    )


class Preparation:
    """The steps from a folder to a graph whose arrays are in a work folder."""

    def __init__(self, config: Config, work: pathlib.Path) -> None:
        self._config = config
        self._work = work
        self._folder = pathlib.Path(config.dataset_dir)
        self._shards = find_shards(self._folder)
        check_pairs(self._shards["edges"])
        self._columns = Columns.parse(config.columns)
        self._faults = Faults()
        nobody = np.empty(0, np.int64)
        name = self._folder.resolve().name
        self._parts = GraphParts(name, 0, nobody, nobody)

    def graph(self) -> Graph:
        """Run both pipelines, and put together what they have written."""
        nodes = self._read_nodes()
        ids = None if nodes is None else self._take_nodes(nodes)
        self._take_arrays(nodes)
        found = self._read_edges(nodes if ids is not None else None)
        self._columns.check()
        self._faults.check()
        graph = assemble(
            self._parts,
            SplitRule.parse(self._config.split),
            self._config.split_seed,
            self._config.missing_features,
            self._faults,
        )
        self._tell(found)
        graph = graph.with_adjacency(
            self._adjacency(),
            EdgeStatistics(
                entries=found.counts.get("entries", 0)
                - found.counts.get("zeros", 0),
                duplicates=found.counts.get("duplicates", 0),
                self_loops=found.counts.get("self_loops", 0),
                reversed_added=found.counts.get("reversed_added", 0),
            ),
        )
        if self._parts.features is None:
            if self._config.missing_features == "degree":
                graph = graph.with_features(degree_features(graph))
        return graph

    def _read_nodes(self) -> NodeShards | None:
        shards = self._shards.get("nodes")
        if shards is None:
            return None
        path = self._work / "nodes.json"
        with options.running(options.pipeline_options()) as pipeline:
            _ = (
                pipeline
                | beam.Create([*enumerate(shards)])
                | beam.Reshuffle()
                | beam.ParDo(node_shards.Read(self._work, self._config.columns))
                | Write(path)
            )
        found = self._take(Findings(path), "nodes")
        self._faults.check()
        sizes = [found.counts[f"rows of shard {i}"] for i in range(len(shards))]
        return NodeShards(self._work, shards, sizes)

    def _take(self, found: Findings, part: str) -> Findings:
        for text in found.names_of("warning:"):
            _LOG.warning("%s", text)
        found.check_alike(part)
        found.add_to(self._faults)
        self._columns.seen.update(dict.fromkeys(found.names_of("column:")))
        self._columns.found.update(found.names_of("part:"))
        return found

    def _take_nodes(self, nodes: NodeShards) -> Any:
        """Labels, split and ids of the nodes; returns the ids."""
        nodes.add_to(self._parts)
        ids = nodes.ids()
        if ids is not None:
            table = node_files.Nodes(
                self._folder / "nodes", ids, *[None] * 4, nodes.place
            )
            table_graph.check_distinct(table, ids, self._faults)
            self._faults.check()
            self._parts.node_ids = tables.as_array(ids)
        return ids

    def _take_arrays(self, nodes: NodeShards | None) -> None:
        """Features and labels, which may be in files of their own."""
        parts = self._parts
        columns = None if nodes is None else nodes.arrays("features")
        if columns is not None:
            parts.features = _joined(self._work / "features.npy", columns)
        if "features" in self._shards:
            if columns is not None:
                raise DataError(
                    f"{self._folder}: expected features in the nodes or in a "
                    "file of their own, not both; "
                    "--columns=drop=... leaves columns out"
                )
            parts.features = self._feature_file()
        if "labels" in self._shards:
            parts.labels = node_files.read_label_array(
                self._shards["labels"][0]
            )
        if nodes is None:
            there = (parts.features, parts.labels)
            rows = [each.shape[0] for each in there if np.ndim(each)]
            if not rows:
                raise DataError(
                    f"--dataset_dir={self._folder}: expected nodes.csv, or "
                    "nodes-00000.csv and so on, or features.npy"
                )
            parts.n_nodes = int(rows[0])

    def _feature_file(self) -> Any:
        path = self._shards["features"][0]
        features = node_files.read_features(path, self._columns, self._faults)
        if isinstance(features, node_files.Nodes):
            raise DataError(
                f"{path}: expected these columns in the shards of nodes, or "
                "a file features.npy in the order of the nodes"
            )
        return features

    def _read_edges(self, named: NodeShards | None) -> Findings:
        """Write the blocks of rows; `named` has the ids, where nodes have."""
        path = self._work / "edges.json"
        block_nodes = self._block_nodes()
        with options.running(options.pipeline_options()) as pipeline:
            read = (
                pipeline
                | "Shards of edges" >> beam.Create(self._shards["edges"])
                | "Spread" >> beam.Reshuffle()
                | beam.ParDo(
                    edges.Read(self._config.columns, self._parts.n_nodes)
                ).with_outputs(edges.FINDINGS, main="pieces")
            )
            pieces, found = self._number(pipeline, read.pieces, named)
            written = (
                pieces
                | beam.FlatMap(edges.by_block, block_nodes)
                | "Rows of a block" >> beam.GroupByKey()
                | beam.ParDo(edges.WriteBlock(self._work, block_nodes))
            )
            _ = (
                [read[edges.FINDINGS], *found, written]
                | beam.Flatten()
                | Write(path)
            )
        return self._take(Findings(path), "edges")

    def _block_nodes(self) -> int:
        return int(min(options.BLOCK_NODES.value, max(1, self._parts.n_nodes)))

    def _number(
        self, pipeline: Any, pieces: Any, named: NodeShards | None
    ) -> tuple[Any, list[Any]]:
        if named is None:
            outputs = pieces | beam.ParDo(
                edges.AsNumbers(self._parts.n_nodes)
            ).with_outputs(edges.FINDINGS, main="pieces")
            return outputs.pieces, [outputs[edges.FINDINGS]]
        files = [
            (node_shards.ids_path(self._work, i), int(start))
            for i, start in enumerate(named.starts[:-1])
        ]
        n_buckets = 1 + named.n_nodes // _BUCKET_IDS
        nodes = (
            pipeline
            | "Shards of ids" >> beam.Create(files)
            | beam.FlatMap(edges.spread_nodes, n_buckets)
        )
        return edges.numbered(pieces, nodes, n_buckets)

    def _tell(self, found: Findings) -> None:
        """Warn as reading in memory does."""
        if found.counts.get("zeros"):
            _LOG.warning(
                "%s: %d edges have weight 0 and are left out, one is %s",
                self._parts.name,
                found.counts["zeros"],
                found.places_of("zeros")[0],
            )
        if found.counts.get("reversed_added"):
            _LOG.warning(
                "%s: directed input, made symmetric: %d entries had no reverse "
                "entry and got one",
                self._parts.name,
                found.counts["reversed_added"],
            )

    def _adjacency(self) -> Any:
        """The blocks of rows, joined into memory-mapped arrays."""
        block_nodes, n_nodes = self._block_nodes(), self._parts.n_nodes
        n_blocks = -(-n_nodes // block_nodes)
        blocks = [edges.block_path(self._work, k) for k in range(n_blocks)]
        counts = np.zeros(n_blocks * block_nodes, np.int64)
        for k, path in enumerate(blocks):
            if path.is_file():
                with np.load(path) as archive:
                    start = k * block_nodes
                    counts[start : start + block_nodes] = archive["counts"]
        indptr = np.concatenate([[0], np.cumsum(counts[:n_nodes])])
        indices, weights = (
            _write(
                self._work / f"{name}.npy",
                (int(indptr[-1]),),
                dtype,
                _members(blocks, name),
            )
            for name, dtype in (("indices", np.int32), ("weights", np.float32))
        )
        return csr_matrix_of(weights, indices, indptr)


def _members(blocks: _Paths, name: str) -> Iterator[npt.NDArray[Any]]:
    for path in blocks:
        if path.is_file():
            with np.load(path) as archive:
                yield archive[name]


def _joined(path: pathlib.Path, arrays: Sequence[Any]) -> Any:
    """Feature matrices of shards as one, memory-mapped."""
    shape = (sum(map(len, arrays)), arrays[0].shape[1])
    blocks = (block for each in arrays for _, block in row_blocks(each))
    return _write(path, shape, np.float32, blocks)


def _write(
    path: pathlib.Path,
    shape: tuple[int, ...],
    dtype: Any,
    blocks: Iterator[Any],
) -> Any:
    with open(path, "wb") as file:
        write_blocks(file, shape, dtype, blocks)
    return np.load(path, mmap_mode="r")


def parse(argv: list[str]) -> Config:
    """The settings, with the flags of `--mode=convert`; or the program ends."""
    return options.parsed_or_exit(_parse_flags, argv)


def _parse_flags(argv: list[str]) -> Config:
    words = ["--dataset=folder", "--mode=convert", "--to=store"]
    config = main.parse_flags([argv[0], *words, *argv[1:]])
    if (config.mode, config.to) != ("convert", "store"):
        raise flags.Error(
            f"--mode={config.mode} --to={config.to}: this makes a store, leave "
            "the flags out"
        )
    if not config.dataset_dir:
        raise flags.Error("--dataset_dir names the folder to read")
    return config


def run(config: Config) -> None:
    """Make the store and print where it is."""
    absl_logging.set_verbosity(absl_logging.INFO)
    options.end(lambda: _prepared(config), USER_ERRORS)


def _prepared(config: Config) -> str:
    try:
        return prepare(config)
    except FaultyDataError as error:
        raise DataError("\n".join(map(str, error.faults))) from error


if __name__ == "__main__":
    app.run(run, flags_parser=parse)
