"""Sampled mini-batches as a `tf.data.Dataset`.

A generator shuffles the training nodes, draws the layers below each batch
and yields COO arrays, packed; `map` makes the SparseTensors of them. One
dataset runs on over all epochs: an epoch is `n_steps` elements, in which
every training node comes exactly once, the last batch being shorter where
the size does not divide.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy import sparse

from adaptive_gcn.aligned import aligned_empty
from adaptive_gcn.features import DENSE_LIMIT_BYTES, FeatureRows
from adaptive_gcn.graph import Graph
from adaptive_gcn.sampling import samplers
from adaptive_gcn.sampling.rows import csr_rows

SPARSE_BELOW = 0.05  # Features of a lower density travel as SparseTensors.

ImportanceFn = Callable[[], npt.NDArray[np.floating[Any]]]
Ids = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Position:
    """Where shuffling and sampling stand as an epoch begins.

    Attributes:
        step: Steps drawn before.
        shuffle: State of the generator that orders the training nodes.
        sample: State of the generator that layers are drawn with.
        importance: [n_nodes] g in use, where the next step does not compute
            it anew; else None.
    """

    step: int
    shuffle: dict[str, Any]
    sample: dict[str, Any]
    importance: npt.NDArray[np.floating[Any]] | None = None

    def check(self) -> None:
        """Try the states.

        Raises:
            KeyError, OverflowError, TypeError, ValueError: If NumPy refuses
                one of them.
        """
        _Streams(self)


@dataclasses.dataclass(frozen=True)
class Batches:
    """How to cut, sample and feed the training nodes.

    Attributes:
        graph: The training graph; all its `train_nodes` are used.
        sampler: Draws the layers, over the nodes of `graph`.
        samples_per_layer: Draws per layer, bottom-up.
        batch_size: Training nodes per step.
        seed: Seed of shuffling and sampling.
        feature_levels: Of how many levels, bottom-up, to emit the features:
            1 for the input of the network, one more than there are layers
            for all levels with the batch.
        importance_fn: Returns g(x) of all nodes, [n_nodes] > 0, for the
            current W_g; called every `refresh_interval` steps if the sampler
            uses it.
        refresh_interval: Steps between two calls of `importance_fn`; 0 to
            call it before the first step only.
        prefetch: Batches to prepare ahead. 0 draws each batch when it is
            asked for, so that g has no lag.
        worker: Which of `n_workers` processes this is. Each takes its part of
            every batch, with a stream of its own.
        n_workers: Processes that share the training nodes.
        replicas: Parts that each of them takes, one element each.
    """

    graph: Graph
    sampler: samplers.Sampler
    samples_per_layer: tuple[int, ...]
    batch_size: int
    seed: int = 0
    feature_levels: int = 1
    importance_fn: ImportanceFn | None = None
    refresh_interval: int = 1
    prefetch: int = 0
    worker: int = 0
    n_workers: int = 1
    replicas: int = 1
    _sources: list[list[Iterator[Any]]] = dataclasses.field(
        default_factory=list, init=False, repr=False
    )
    _positions: dict[int, Position] = dataclasses.field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def n_steps(self) -> int:
        """Steps of one epoch."""
        return -(-len(self.graph.train_nodes) // self.batch_size)

    @property
    def n_layers(self) -> int:
        """Number of sampled layers."""
        return len(self.samples_per_layer)

    def dataset(self, start: Position | None = None) -> tf.data.Dataset:
        """An endless dataset of (inputs, labels), as `model` takes them.

        It draws from one generator, made by this call: iterate it once, and
        ask for another dataset to start anew.

        Args:
            start: Where to go on; None for the beginning.
        """
        reader = _row_reader(self.graph.features)
        self._positions.clear()
        source = [self._generate(reader, start or self._beginning())]
        self._sources.append(source)
        signature = _packed_signature(reader, self.feature_levels)
        dtypes = [spec.dtype for spec in signature]

        def fetch(step: tf.Tensor) -> tuple[dict[str, Any], tf.Tensor]:
            # Half the time of Dataset.from_generator, BUILD_NOTES.md 5.
            packed = tf.numpy_function(
                lambda _: next(source[0]), [step], dtypes
            )
            for tensor, spec in zip(packed, signature, strict=True):
                tensor.set_shape(spec.shape)
            return self._unpack(*packed)

        dataset = tf.data.Dataset.counter().map(fetch)
        if self.prefetch:
            dataset = dataset.prefetch(self.prefetch)
        options = tf.data.Options()
        options.autotune.enabled = False
        options.experimental_optimization.inject_prefetch = False
        return dataset.with_options(options)

    def close(self) -> None:
        """End the datasets made so far and free what they hold.

        TensorFlow keeps a function that it once called, and with it the
        generator, for as long as any function of the network lives.
        """
        while self._sources:
            self._sources.pop().clear()

    def position(self, step: int) -> Position:
        """Where the newest dataset stood after the steps of a whole epoch.

        Args:
            step: Steps since the beginning, the last or the one before that
                a training loop has got.
        """
        return self._positions[step]

    def _beginning(self) -> Position:
        seeds = np.random.SeedSequence(self.seed).spawn(2)
        states = [np.random.default_rng(s).bit_generator.state for s in seeds]
        return Position(0, *states)

    def _generate(
        self, reader: RowReader, start: Position
    ) -> Iterator[tuple[Any, ...]]:
        streams = _Streams(start)
        if streams.importance is not None:
            self.sampler.refresh(streams.importance)
        for batch in self._batches(streams.shuffle):
            if self._is_refresh(streams):
                streams.importance = self.importance_fn()
                self.sampler.refresh(streams.importance)
            if self.n_workers > 1 and streams.step % self.n_steps == 0:
                streams.sample = self._own_stream(streams.step)
            for part in self._parts(batch):
                yield self._element(part, streams, reader)

    def _element(
        self, batch: Ids, streams: _Streams, reader: RowReader
    ) -> tuple[Any, ...]:
        """The layers below `batch`, packed.

        A function of its own, so that nothing unpacked outlives it: for a
        full batch that would be hundreds of megabytes.
        """
        layers = samplers.sample_layers(
            self.sampler, batch, self.samples_per_layer, streams.sample
        )
        streams.parts += 1
        if streams.parts == self.replicas:
            streams.step += 1
            streams.parts = 0
            self._keep(streams)
        nodes = [*(layer.nodes for layer in layers), batch]
        rows = [reader.read(level) for level in nodes[: self.feature_levels]]
        vectors = [layer.sample_prob for layer in layers]
        vectors += [layer.counts for layer in layers]
        if self._is_stale:
            vectors += [streams.importance[layer.nodes] for layer in layers]
        labels = self.graph.labels[batch].ravel()
        return _pack(layers, nodes, vectors, labels, rows)

    def _keep(self, streams: _Streams) -> None:
        """Note where an epoch ends; forget what no loop asks for any more."""
        if streams.step % self.n_steps:
            return
        oldest = streams.step - self.prefetch - 2 * self.n_steps
        for step in [each for each in self._positions if each < oldest]:
            del self._positions[step]
        stale = self.refresh_interval and streams.step % self.refresh_interval
        self._positions[streams.step] = Position(
            streams.step,
            streams.shuffle.bit_generator.state,
            streams.sample.bit_generator.state,
            streams.importance if stale else None,
        )

    def _batches(self, rng: np.random.Generator) -> Iterator[Ids]:
        while True:
            order = rng.permutation(self.graph.train_nodes)
            if self.n_workers * self.replicas > 1:  # No part may be empty.
                yield from np.array_split(order, self.n_steps)
                continue
            for start in range(0, len(order), self.batch_size):
                yield order[start : start + self.batch_size]

    def _parts(self, batch: Ids) -> list[Ids]:
        """What of a batch is for this worker, by replica."""
        n_parts = self.n_workers * self.replicas
        first = self.worker * self.replicas
        return [batch[first + r :: n_parts] for r in range(self.replicas)]

    def _own_stream(self, step: int) -> np.random.Generator:
        """This worker's for an epoch: no state of it need be kept."""
        key = (1, self.worker, step // self.n_steps)
        seed = np.random.SeedSequence(self.seed, spawn_key=key)
        return np.random.default_rng(seed)

    @property
    def _draws_by_g(self) -> bool:
        return self.importance_fn is not None and self.sampler.uses_importance

    def _is_refresh(self, streams: _Streams) -> bool:
        if not self._draws_by_g:
            return False
        if streams.importance is None or self.refresh_interval == 0:
            return streams.importance is None
        return streams.step % self.refresh_interval == 0

    @property
    def _is_stale(self) -> bool:
        """Whether W_g may have moved since g was computed."""
        lags = self.refresh_interval > 1 or self.prefetch > 0
        return self._draws_by_g and lags and self.refresh_interval > 0

    def _unpack(
        self, integers: tf.Tensor, floats: tf.Tensor, *dense_rows: tf.Tensor
    ) -> tuple[dict[str, Any], tf.Tensor]:
        """The inverse of `_pack`, inside the dataset."""
        n_layers, n_levels = self.n_layers, self.n_layers + 1
        n_sparse = 0 if dense_rows else self.feature_levels
        n_sizes = n_levels + n_layers + n_sparse
        sizes = tf.unstack(integers[:n_sizes], n_sizes)
        n_nodes, n_entries = sizes[:n_levels], sizes[n_levels:]
        n_labels = n_nodes[-1]
        if self.graph.multi_label:
            n_labels *= self.graph.n_classes
        pieces = tf.split(
            integers[n_sizes:],
            [*n_nodes, *(2 * n for n in n_entries), n_labels],
        )
        names = ["sample_prob", "counts", "importance"][: 2 + self._is_stale]
        values = tf.split(floats, [*n_entries, *n_nodes[:-1] * len(names)])
        vectors = values[len(n_entries) :]
        n_rows = [*n_nodes[1:], *n_nodes[:n_sparse]]
        n_columns = [*n_nodes[:-1], *[self.graph.n_features] * n_sparse]
        matrices = [
            tf.SparseTensor(tf.reshape(indices, (-1, 2)), entries, shape)
            for indices, entries, *shape in zip(
                pieces[n_levels:-1],
                values[: len(n_entries)],
                n_rows,
                n_columns,
                strict=True,
            )
        ]
        inputs = {
            "features": dense_rows or tuple(matrices[n_layers:]),
            "adjacency": tuple(matrices[:n_layers]),
            "nodes": tuple(pieces[:n_levels]),
        }
        for place, name in enumerate(names):
            inputs[name] = tuple(vectors[place * n_layers :][:n_layers])
        labels = pieces[-1]
        if self.graph.multi_label:
            labels = tf.reshape(labels, (-1, self.graph.n_classes))
        return inputs, labels


class _Streams:
    """The random streams of a dataset, and the g that it draws with."""

    def __init__(self, start: Position) -> None:
        self.step = start.step
        self.parts = 0  # Of the present step.
        self.shuffle = _generator(start.shuffle)
        self.sample = _generator(start.sample)
        self.importance = start.importance


def _generator(state: dict[str, Any]) -> np.random.Generator:
    bits = np.random.PCG64()
    bits.state = state
    return np.random.Generator(bits)


class RowReader(Protocol):
    """Reads feature rows as the network wants them."""

    is_sparse: bool
    n_features: int

    def read(self, nodes: Ids) -> Any:
        """Rows of `nodes`: dense [n, n_features], or (indices, values)."""


class DenseRows:
    """Rows of a dense matrix, which may be a memory map.

    Args:
        features: [n_nodes, n_features] float32, an array or `FeatureRows`.
    """

    is_sparse = False

    def __init__(self, features: Any):
        is_view = isinstance(features, FeatureRows)
        self._rows = features.rows if is_view else None
        self._matrix = np.asarray(features.matrix if is_view else features)
        self.n_features = features.shape[1]

    def read(self, nodes: Ids) -> npt.NDArray[np.float32]:
        rows = nodes if self._rows is None else self._rows[nodes]
        out = aligned_empty(len(rows), self.n_features)
        # "clip", or NumPy would fill a buffer and copy that; ids are valid.
        return self._matrix.take(rows, axis=0, out=out, mode="clip")


class SparseRows:
    """Rows of a CSR matrix as coordinates [nnz, 2] and values [nnz]."""

    is_sparse = True

    def __init__(self, features: sparse.csr_array):
        self._features = features
        self.n_features = features.shape[1]

    def read(self, nodes: Ids) -> tuple[Ids, npt.NDArray[np.float32]]:
        matrix = self._features
        return csr_rows(matrix.indptr, matrix.indices, matrix.data, nodes)


def _row_reader(features: Any) -> RowReader:
    if not sparse.issparse(features):
        return DenseRows(features)
    n_cells = features.shape[0] * features.shape[1]
    too_large = 4 * n_cells > DENSE_LIMIT_BYTES
    if too_large or features.nnz < SPARSE_BELOW * n_cells:
        return SparseRows(features)
    return DenseRows(features.toarray())


def _packed_signature(reader: RowReader, levels: int) -> tuple[Any, ...]:
    packed = (
        tf.TensorSpec((None,), tf.int64),
        tf.TensorSpec((None,), tf.float32),
    )
    if reader.is_sparse:
        return packed
    rows = tf.TensorSpec((None, reader.n_features), tf.float32)
    return (*packed, *[rows] * levels)


def _pack(
    layers: Sequence[samplers.LayerSample],
    nodes: Sequence[Ids],
    vectors: Sequence[npt.NDArray[np.floating[Any]]],
    labels: Ids,
    rows: Sequence[Any],
) -> tuple[Any, ...]:
    """One element in few arrays: each array costs tf.data about 0.1 ms.

    Integers: sizes (nodes of each level, entries of each matrix), node ids,
    coordinates of each matrix, labels. Floats: values of each matrix,
    vectors. The matrices are the adjacency of each layer, then the features
    of each level where those are sparse; dense features follow as they are.
    """
    is_sparse = isinstance(rows[0], tuple)
    matrices = [(layer.indices, layer.values) for layer in layers]
    matrices += rows if is_sparse else []
    sizes = [*map(len, nodes), *(len(values) for _, values in matrices)]
    integers = np.concatenate(
        [sizes, *nodes, *(indices.ravel() for indices, _ in matrices), labels],
        dtype=np.int64,
    )
    floats = np.concatenate(
        [*(values for _, values in matrices), *vectors], dtype=np.float32
    )
    return (integers, floats) if is_sparse else (integers, floats, *rows)
