"""The full architecture, Eq. (1), layer by layer over blocks of nodes.

Elements are (number of a block, its rows of a table), never single nodes.
A layer is one exchange: each block asks every other one for the rows that it
has edges to, and multiplies what comes by its rows of A^. What is asked is the
same in every layer. The degrees that A^ is made of travel beside the rows, so
that nobody reads the edges of others.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy import sparse

from adaptive_gcn import loading, training
from adaptive_gcn.beam.blocks import (
    AdjacencyRows,
    Blocks,
    OwnRows,
    Rows,
)
from adaptive_gcn.beam.gathering import gathered
from adaptive_gcn.config import Config
from adaptive_gcn.features import Features, column_statistics, scale_features
from adaptive_gcn.graph import Graph
from adaptive_gcn.memory_map import mapped_anew
from adaptive_gcn.propagation import feature_products

_LOADING = threading.Lock()  # Of the threads of a worker one loads.


@dataclasses.dataclass(frozen=True)
class Output:
    """What a block of nodes gets.

    Attributes:
        logits: [n, n_classes] float32.
        hidden: [n, units] float32, the last hidden layer; None without
            `embeddings`.
    """

    logits: npt.NDArray[np.float32]
    hidden: npt.NDArray[np.float32] | None


@dataclasses.dataclass(frozen=True)
class Run:
    """A run's graph and network, which a process loads once.

    Attributes:
        config: The settings of the run.
        token: Another one for each prediction: the run may have been trained
            anew since a worker that still lives loaded it.
    """

    config: Config
    token: str

    @property
    def graph(self) -> Graph:
        """The graph, its features as they were read."""
        with _LOADING:
            return _graph(self)

    @property
    def network(self) -> Any:
        """The network with the weights of the run.

        Raises:
            run_folder.RunFolderError: If there are no such weights.
        """
        with _LOADING, tf.device("CPU"):
            return _network(self)


@functools.lru_cache(maxsize=1)
def _graph(run: Run) -> Graph:
    return loading.load(run.config)


@functools.lru_cache(maxsize=1)
def _network(run: Run) -> Any:
    network = training.build_model(run.config, _graph(run))
    training.load_weights(network, run.config)
    return network


@dataclasses.dataclass(frozen=True)
class Task:
    """What every worker must know.

    Attributes:
        run: The run.
        blocks: The blocks of its graph.
        columns: For `--features=standard` what is subtracted from each column
            and what it is divided by, see `column_statistics`; else None.
    """

    run: Run
    blocks: Blocks
    columns: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None

    @property
    def config(self) -> Config:
        return self.run.config


def task_of(run: Run, block_nodes: int) -> Task:
    """The task of a run; "standard" passes over all features here."""
    graph = run.graph
    columns = None
    if run.config.features == "standard":
        columns = column_statistics(graph.features, graph.train_nodes)
    return Task(run, Blocks(graph.n_nodes, block_nodes), columns)


class FullPropagation(beam.PTransform):
    """Numbers of blocks -> (number, `Output`) under the full architecture.

    Args:
        task: The task.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def expand(self, pcoll: Any) -> Any:
        config = self._task.config
        top = len(config.hidden_units)
        numbers = pcoll | "spread" >> beam.Reshuffle()
        requests = numbers | "ask" >> beam.ParDo(_Ask(self._task))
        rows = numbers | "bottom" >> beam.ParDo(_Bottom(self._task))
        if config.precompute:
            rows = self._layer(rows, requests, "A^X", None)
        for level in range(int(config.precompute), top + 1):
            rows = self._layer(rows, requests, f"layer {level}", level)
        return rows

    def _layer(
        self, rows: Any, requests: Any, name: str, level: int | None
    ) -> Any:
        """One aggregation, by M + M^2 in two hops; `level` None is of X."""
        if self._task.config.two_hop:
            step = _FirstHop(self._task)
            rows = _exchange(rows, requests, f"{name}, first hop", step)
        step = _Layer(self._task, level)
        return _exchange(rows, requests, name, step)


def _exchange(rows: Any, requests: Any, name: str, step: beam.DoFn) -> Any:
    return (
        {"rows": rows, "requests": requests}
        | f"{name}: join" >> beam.CoGroupByKey()
        | f"{name}: answer" >> beam.FlatMapTuple(_answer)
        | f"{name}: gather" >> beam.GroupByKey()
        | name >> beam.ParDo(step)
    )


def _answer(block: int, joined: Any) -> Iterator[tuple[int, Rows]]:
    """All rows of a block to itself, and to others what they asked for."""
    (rows,) = joined["rows"]
    yield block, rows
    for other, places in joined["requests"]:
        yield other, rows.of(places)


class _OnGraph(beam.DoFn):
    """Works on the graph and the network, on the CPU."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def setup(self) -> None:
        self._graph = self._task.run.graph
        self._network = self._task.run.network

    def _rows_of(self, block: int) -> AdjacencyRows:
        return AdjacencyRows(self._graph.adjacency, self._task.blocks, block)


class _Ask(_OnGraph):
    """Number of a block -> (other block, (block, places there))."""

    def process(self, element: int) -> Iterator[Any]:
        for other, places in self._rows_of(element).requests():
            if other != element:
                yield other, (element, places)


class _Bottom(_OnGraph):
    """Number of a block -> (block, H W at the bottom); X for A^X."""

    def process(self, element: int) -> Iterator[tuple[int, Rows]]:
        start, stop = self._task.blocks.bounds(element)
        adjacency = self._graph.adjacency[start:stop]
        degree = adjacency.sum(axis=1, dtype=np.float64) + 1.0
        features = _scaled(
            mapped_anew(self._graph.features, start, stop), self._task
        )
        if self._task.config.precompute:
            yield element, Rows(element, features, degree, None, OwnRows())
            return
        with tf.device("CPU"):
            kernel = self._network.convolutions[0].kernel
            table = feature_products(features, kernel).numpy()
            parent, sample = _scores(self._network, features)
        yield element, Rows(element, table, degree, sample, OwnRows(parent))


def _scaled(features: Features, task: Task) -> Features:
    """Features of one block as `prepared.scaled` has them."""
    if task.columns is not None:
        mean, deviation = task.columns
        if sparse.issparse(features):
            features = features.toarray()
        return ((features - mean) / deviation).astype(np.float32)
    nobody = np.empty(0, np.int64)
    features = scale_features(features, task.config.features, nobody)
    return features if sparse.issparse(features) else np.asarray(features)


def _scores(network: Any, features: Features) -> tuple[Any, Any]:
    """W_1 z and W_2 z of a block, Eq. (14), or None."""
    if network.attention is None:
        return None, None
    inputs = network.attention_inputs(_as_tensor(features))
    parent, sample = network.attention.scores(inputs, inputs)
    return parent.numpy(), sample.numpy()


def _as_tensor(features: Features) -> tf.Tensor | tf.SparseTensor:
    if not sparse.issparse(features):
        return tf.constant(features)
    entries = features.tocoo()
    places = np.stack(entries.coords, axis=1).astype(np.int64)
    return tf.SparseTensor(places, entries.data, entries.shape)


class _Aggregation(_OnGraph):
    """(block, answers) -> (block, what `finish` makes of A^ times them)."""

    def process(
        self, element: tuple[int, Iterable[Rows]]
    ) -> Iterator[tuple[int, Any]]:
        block, answers = element
        own = next(each for each in answers if each.own is not None)
        with tf.device("CPU"):
            product = self._product(own, answers)
            yield block, self.finish(own, product)

    def finish(self, own: Rows, product: Any) -> Any:
        """What comes of the block, of its own rows and the product."""
        raise NotImplementedError

    def _product(self, own: Rows, answers: Iterable[Rows]) -> Any:
        """A^ times the rows of all answers, summed in double precision.

        So that their order, which is by chance, hardly ever shows.
        """
        adjacency = self._rows_of(own.block)
        total: Any = 0
        # A product for each of many small answers would take far longer.
        rows = gathered(answers, lambda a: len(a.degree), len(own.degree))
        for batch in rows:
            matrix = self._matrix(adjacency, own, batch).astype(np.float64)
            total = total + matrix.tocsr() @ _joined(batch)
        return total.astype(np.float32)

    def _matrix(
        self, adjacency: AdjacencyRows, own: Rows, batch: list[Rows]
    ) -> sparse.csc_array:
        config = self._task.config
        identity = 0.0 if config.two_hop else config.identity_weight
        matrix = adjacency.normalized(
            own.degree, batch, config.normalization, identity
        )
        if own.own.parent_score is not None:
            matrix.data *= self._attention(own.own.parent_score, batch, matrix)
        return matrix

    def _attention(
        self,
        parent_score: npt.NDArray[np.float32],
        batch: list[Rows],
        matrix: sparse.csc_array,
    ) -> npt.NDArray[np.float32]:
        """Attention of each entry, Eq. (14)."""
        columns = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
        indices = np.stack([matrix.indices, columns], axis=1)
        sample_score = np.concatenate([each.sample_score for each in batch])
        return self._network.attention.combine(
            parent_score, sample_score, indices
        ).numpy()


def _joined(answers: list[Rows]) -> Features:
    tables = [each.table for each in answers]
    if sparse.issparse(tables[0]):
        return sparse.vstack(tables, "csr")
    return np.concatenate(tables)


class _FirstHop(_Aggregation):
    """M H W, and beside it what the second hop adds to M (M H W)."""

    def finish(self, own: Rows, product: Any) -> Rows:
        identity = self._task.config.identity_weight
        one_hop = product
        if identity:
            one_hop = product + np.float32(identity) * own.table
        kept = dataclasses.replace(own.own, one_hop=one_hop)
        return dataclasses.replace(own, table=product, own=kept)


class _Layer(_Aggregation):
    """The rows for the layer above, or the outputs at the top.

    Args:
        task: The task.
        level: The layer whose aggregation this is; None: A^X.
    """

    def __init__(self, task: Task, level: int | None) -> None:
        super().__init__(task)
        self._level = level

    def finish(self, own: Rows, product: Any) -> Rows | Output:
        if own.own.one_hop is not None:
            product = product + own.own.one_hop
        if self._level is None:
            return self._over_aggregated(own, product)
        convolutions = self._network.convolutions
        hidden = convolutions[self._level].activate(tf.constant(product))
        if self._level == len(convolutions) - 1:
            return Output(hidden.numpy(), own.own.hidden)
        return self._above(own, self._level + 1, hidden, own.own.parent_score)

    def _over_aggregated(self, own: Rows, aggregated: Features) -> Rows:
        """Rows over ReLU(A^X W_0), which no sample and no edge bears on."""
        bottom = self._network.convolutions[0]
        hidden = bottom.activate(feature_products(aggregated, bottom.kernel))
        parent, sample = _scores(self._network, aggregated)
        own = dataclasses.replace(own, sample_score=sample)
        return self._above(own, 1, hidden, parent)

    def _above(
        self, own: Rows, level: int, hidden: tf.Tensor, parent_score: Any
    ) -> Rows:
        """The rows h W that layer `level` aggregates."""
        convolutions = self._network.convolutions
        table = tf.matmul(hidden, convolutions[level].kernel).numpy()
        is_last = level == len(convolutions) - 1
        wanted = is_last and self._task.config.embeddings
        kept = OwnRows(parent_score, hidden.numpy() if wanted else None)
        return dataclasses.replace(own, table=table, own=kept)
