"""The exported model: requests in, answers out, all in TensorFlow.

Each layer l aggregates rows of its table t_l [n_nodes, units]: t_0 = X W_0
and t_l = h_l W_l, Eq. (1). The tables of the exported graph are variables,
so the answer for one of its nodes takes one hop, and so does each layer of a
node that is not in the graph. Features come as the user has them; their
scaling is part of the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

MOST_TERMS = 2**31 - 1  # Entries times output columns in one sparse product.

# (level, table [n, units], attention scores [n, 2] or None) -> z [n, units].
Aggregate = Callable[[int, tf.Tensor, Any], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Form:
    """What a network computes, apart from its numbers.

    Attributes:
        scaling: One of `features.SCALINGS`.
        normalization: "sym" or "row", as in `normalize_adjacency`.
        two_hop: Likewise.
        identity_weight: Likewise.
        skip: Whether the layer below the top returns ReLU(z) + z.
        attention_offset: c of `SelfDependentAttention`; None without one.
        precomputed: Whether the bottom layer is ReLU(A^X W_0) of A^X, so that
            it has no attention and that of the others sees A^X for X.
        multi_label: Whether a node may have several labels at once.
    """

    scaling: str
    normalization: str
    two_hop: bool = False
    identity_weight: float = 0.0
    skip: bool = False
    attention_offset: float | None = None
    precomputed: bool = False
    multi_label: bool = False


@dataclasses.dataclass(frozen=True)
class Weights:
    """The numbers of a network.

    Attributes:
        projection: [n_features, units_0 (+ 2)] float32: W_0, and with
            attention what makes W_1 z(v) and W_2 z(u) of features, Eq. (14).
        kernels: [units_{l-1}, units_l] float32 of the layers above.
        center: [n_features] float64, subtracted from raw features.
        spread: [n_features] float64, by which they are then divided.
    """

    projection: npt.NDArray[np.float32]
    kernels: Sequence[npt.NDArray[np.float32]]
    center: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Tables:
    """What a network makes of the exported graph.

    Attributes:
        indptr: [n_nodes + 1], rows of A^.
        indices: [nnz] int32, its columns.
        values: [nnz] float32, its entries, times attention if there is one.
        bottom_values: [nnz] float32, those of the bottom layer; None if they
            are the same.
        degrees: [n_nodes] float64, row sums of A + I.
        tables: t_l of each layer, bottom-up; t_0 with all columns of the
            projection.
        sample_scores: [n_nodes] float32, W_2 z(u); None without attention.
    """

    indptr: npt.NDArray[Any]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    bottom_values: npt.NDArray[np.float32] | None
    degrees: npt.NDArray[np.float64]
    tables: Sequence[Any]
    sample_scores: Any


class ServedModel(tf.Module):
    """A network, and the graph it was trained on, as functions of requests.

    A request that cannot be answered ends with `InvalidArgumentError`, which
    names the first offending ids or rows; an empty one has an empty answer.

    Args:
        form: What to compute.
        weights: Its numbers.
        tables: What it made of the graph.
        class_names: Names of the classes.
        ids_file: Text file with the name of node i in line i; empty if the
            nodes are 0, 1, ...
        ids_dtype: tf.int64 or tf.string.
    """

    def __init__(
        self,
        form: Form,
        weights: Weights,
        tables: Tables,
        class_names: Sequence[str],
        ids_file: str = "",
        ids_dtype: tf.DType = tf.int64,
    ):
        super().__init__()
        self._form = form
        self.n_features, self._width = weights.projection.shape
        if form.attention_offset is not None:
            self._width -= 2
        self.n_nodes = len(tables.degrees)
        self.ids_dtype = ids_dtype
        self._class_names = tf.constant(list(class_names))
        self._ids = _lookup(ids_file, ids_dtype) if ids_file else None
        self._projection = _variable(weights.projection)
        self._kernels = [_variable(kernel) for kernel in weights.kernels]
        self._center = _variable(weights.center)
        self._spread = _variable(weights.spread)
        self._indptr = _variable(tables.indptr)
        self._indices = _variable(tables.indices)
        self._values = _variable(tables.values)
        self._bottom_values = self._values
        if tables.bottom_values is not None:
            self._bottom_values = _variable(tables.bottom_values)
        self._degrees = _variable(tables.degrees)
        self._tables = [_variable(table) for table in tables.tables]
        if form.attention_offset is not None:
            self._sample_scores = _variable(tables.sample_scores)

    # Signatures.

    def serving_default(self, node_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classes of nodes of the graph.

        Args:
            node_ids: [n], the user's ids.

        Returns:
            probabilities [n, n_classes] float32, class [n] int64, class_name
            [n] string; if a node may have several labels, probabilities of
            each and labels [n, n_classes] bool.
        """
        rows = self._rows(node_ids, "node_ids")
        return self._answer(self._hop(rows, len(self._kernels)))

    def embed(self, node_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """The last hidden layer of nodes of the graph.

        Args:
            node_ids: [n], the user's ids.

        Returns:
            embedding [n, units] float32.
        """
        level = len(self._kernels) - 1
        rows = self._rows(node_ids, "node_ids")
        return {"embedding": self._activate(level, self._hop(rows, level))}

    def class_names(self, classes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Names of classes, or of labels if a node may have several.

        Args:
            classes: [n] int64, columns of `probabilities`.

        Returns:
            class_name [n] string.
        """
        classes = tf.ensure_shape(classes, [None])
        known = (classes >= 0) & (classes < len(self._class_names))
        check = _require(
            tf.reduce_all(known),
            "classes: no such column of probabilities:",
            tf.boolean_mask(classes, ~known),
        )
        with tf.control_dependencies([check]):
            return {"class_name": tf.gather(self._class_names, classes)}

    def inductive(
        self,
        features: tf.Tensor,
        neighbor_ids: tf.Tensor,
        neighbor_mask: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Classes of nodes that are not in the graph, links of weight 1.

        Args:
            features: [n, n_features] float32, not scaled.
            neighbor_ids: [n, k], ids of nodes of the graph.
            neighbor_mask: [n, k] bool, false where an id is padding.

        Returns:
            As `serving_default`.
        """
        weights = tf.ones_like(neighbor_ids, tf.float32)
        return self.inductive_weighted(
            features, neighbor_ids, neighbor_mask, weights
        )

    def inductive_weighted(
        self,
        features: tf.Tensor,
        neighbor_ids: tf.Tensor,
        neighbor_mask: tf.Tensor,
        neighbor_weights: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """As `inductive`, with weights of the links.

        A new node has degree 1 + the sum of its weights. It reads its
        neighbours and they do not read it: their degrees and hidden layers
        stay as they were.

        Args:
            features: As in `inductive`.
            neighbor_ids: As in `inductive`.
            neighbor_mask: As in `inductive`.
            neighbor_weights: [n, k] float32, > 0 where the mask is true.

        Returns:
            As `serving_default`.
        """
        features = tf.ensure_shape(features, [None, self.n_features])
        shape = [None, None]
        links = [neighbor_ids, neighbor_mask, neighbor_weights]
        ids, mask, weights = (tf.ensure_shape(each, shape) for each in links)
        projected = self._project(features)
        n = tf.shape(features)[0]
        with tf.control_dependencies(_same_shapes(n, ids, mask, weights)):
            places = tf.where(mask)
        owners = places[:, 0]
        weights = tf.cast(tf.gather_nd(weights, places), tf.float64)
        rows = self._rows(tf.gather_nd(ids, places), "neighbor_ids")
        checks = self._link_checks(owners, rows, weights)
        with tf.control_dependencies(checks):
            owners = tf.identity(owners)
        links = _Links(owners, rows, *self._new_rows(owners, rows, weights, n))
        z = self._forward(projected, self._new_sums(links))
        return self._answer(_finite(z, _TOO_LARGE))

    def subgraph(
        self, features: tf.Tensor, edges: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Classes of all nodes of another graph, edges of weight 1.

        Args:
            features: [n, n_features] float32, not scaled.
            edges: [m, 2] int64, undirected, rows of `features`; repeated
                edges, reversed or not, count once, self-loops do not count.

        Returns:
            As `serving_default`.
        """
        return self.subgraph_weighted(features, edges, _ones(edges))

    def subgraph_weighted(
        self, features: tf.Tensor, edges: tf.Tensor, edge_weights: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """As `subgraph`, with weights of the edges.

        Args:
            features: As in `subgraph`.
            edges: As in `subgraph`.
            edge_weights: [m] float32, > 0; the same where an edge is repeated.

        Returns:
            As `serving_default`.
        """
        features = tf.ensure_shape(features, [None, self.n_features])
        n = tf.shape(features, tf.int64)[0]
        return self._whole(self._project(features), n, edges, edge_weights)

    def subgraph_sparse(
        self,
        feature_indices: tf.Tensor,
        feature_values: tf.Tensor,
        n_nodes: tf.Tensor,
        edges: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """As `subgraph`, with features that are mostly zeros.

        Args:
            feature_indices: [k, 2] int64, (node, column); where one is
                repeated the values are summed.
            feature_values: [k] float32, not scaled.
            n_nodes: Scalar int64, as large as a sparse product allows.
            edges: As in `subgraph`, of weight 1.

        Returns:
            As `serving_default`.
        """
        n_nodes = tf.ensure_shape(n_nodes, [])
        most = MOST_TERMS // self._projection.shape[1]
        check = _require(
            (n_nodes >= 0) & (n_nodes <= most),
            f"n_nodes: expected 0 to {most}. Received:",
            n_nodes,
        )
        with tf.control_dependencies([check]):
            n_nodes = tf.identity(n_nodes)
        projected = self._project_sparse(
            tf.ensure_shape(feature_indices, [None, 2]),
            tf.ensure_shape(feature_values, [None]),
            n_nodes,
        )
        return self._whole(projected, n_nodes, edges, _ones(edges))

    # Layers.

    def _forward(self, projected: tf.Tensor, aggregate: Aggregate) -> tf.Tensor:
        """Logits from the scaled features times the projection."""
        table, scores = self._split(projected)
        if self._form.precomputed:
            z, scores = self._split(aggregate(0, projected, None))
        else:
            z = aggregate(0, table, scores)
        for level, kernel in enumerate(self._kernels, start=1):
            table = tf.matmul(self._activate(level - 1, z), kernel)
            z = aggregate(level, table, scores)
        return z

    def _split(self, projected: tf.Tensor) -> tuple[tf.Tensor, Any]:
        if self._form.attention_offset is None:
            return projected, None
        return projected[:, : self._width], projected[:, self._width :]

    def _activate(self, level: int, z: tf.Tensor) -> tf.Tensor:
        """ReLU(z), plus z with the skip connection, Eqs. (11)-(13)."""
        hidden = tf.nn.relu(z)
        skips = self._form.skip and level == len(self._kernels) - 1
        return hidden + z if skips else hidden

    def _attention(self, parents: tf.Tensor, samples: tf.Tensor) -> tf.Tensor:
        """Attention of entries from the scores of their ends, Eq. (14)."""
        return tf.nn.relu(parents + samples) + self._form.attention_offset

    def _answer(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        if self._form.multi_label:
            return {"probabilities": tf.sigmoid(logits), "labels": logits > 0}
        chosen = tf.argmax(logits, axis=1)
        return {
            "probabilities": tf.nn.softmax(logits),
            "class": chosen,
            "class_name": tf.gather(self._class_names, chosen),
        }

    # Nodes of the graph.

    def _rows(self, ids: tf.Tensor, name: str) -> tf.Tensor:
        """Rows of the tables, [n], of the user's ids."""
        ids = tf.ensure_shape(ids, [None])
        rows = ids if self._ids is None else self._ids.lookup(ids)
        known = (rows >= 0) & (rows < self.n_nodes)
        unknown = tf.boolean_mask(ids, ~known)
        check = _require(
            tf.reduce_all(known), f"{name}: not in the graph:", unknown
        )
        with tf.control_dependencies([check]):
            return tf.identity(rows)

    def _hop(self, rows: tf.Tensor, level: int) -> tf.Tensor:
        """Rows of A^ t_l, Eq. (1): [n, units]."""
        at_bottom = self._form.precomputed and level == 0
        values = self._bottom_values if at_bottom else self._values
        owners, entries = self._entries(rows)
        neighbors = tf.gather(self._tables[level], self._column(entries))
        if level == 0:
            neighbors = neighbors[:, : self._width]
        terms = tf.gather(values, entries)[:, None] * neighbors
        # Every row has an entry, its diagonal.
        return tf.math.segment_sum(terms, owners)

    def _column(self, entries: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._indices, entries)

    def _entries(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Places of the entries of rows of A^, and which row each is of."""
        starts = tf.gather(self._indptr, rows)
        lengths = tf.gather(self._indptr, rows + 1) - starts
        ends = tf.cumsum(lengths)
        n = tf.reduce_sum(lengths)
        ones = tf.ones_like(ends[:-1])
        owners = tf.cumsum(tf.scatter_nd(ends[:-1, None], ones, n[None]))
        first = starts - (ends - lengths)
        return owners, tf.range(n) + tf.gather(first, owners)

    # New nodes.

    def _link_checks(
        self, owners: tf.Tensor, rows: tf.Tensor, weights: tf.Tensor
    ) -> list[Any]:
        good = (weights > 0) & tf.math.is_finite(weights)
        codes = owners * self.n_nodes + rows
        distinct, _, uses = tf.unique_with_counts(codes, tf.int64)
        repeated = tf.boolean_mask(distinct, uses > 1) // self.n_nodes
        return [
            _require(
                tf.reduce_all(good),
                "neighbor_weights: expected finite numbers > 0; in rows:",
                tf.boolean_mask(owners, ~good),
            ),
            _require(
                tf.equal(tf.size(repeated), 0),
                "neighbor_ids: a neighbour is given twice in rows:",
                repeated,
            ),
        ]

    def _new_rows(
        self, owners: tf.Tensor, rows: tf.Tensor, weights: tf.Tensor, n: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Entries of A^ at the links, [m], and at the diagonal, [n]."""
        degrees = 1.0 + tf.math.unsorted_segment_sum(weights, owners, n)
        own = tf.gather(degrees, owners)
        if self._form.normalization == "row":
            values = weights / own
        else:
            values = weights / tf.sqrt(own * tf.gather(self._degrees, rows))
        loops = 1.0 / degrees + self._form.identity_weight
        return tf.cast(values, tf.float32), tf.cast(loops, tf.float32)

    def _new_sums(self, links: _Links) -> Aggregate:
        """Sums over the links of new nodes and themselves."""

        def aggregate(level: int, table: tf.Tensor, scores: Any) -> tf.Tensor:
            values, loops = links.values, links.loops
            if scores is not None:
                parents, samples = scores[:, 0], scores[:, 1]
                values *= self._attention(
                    tf.gather(parents, links.owners),
                    tf.gather(self._sample_scores, links.rows),
                )
                loops *= self._attention(parents, samples)
            neighbors = tf.gather(self._tables[level], links.rows)
            terms = values[:, None] * neighbors[:, : table.shape[1]]
            n = tf.shape(table)[0]
            sums = tf.math.unsorted_segment_sum(terms, links.owners, n)
            return loops[:, None] * table + sums

        return aggregate

    # Other graphs.

    def _whole(
        self,
        projected: tf.Tensor,
        n: tf.Tensor,
        edges: tf.Tensor,
        weights: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        edges = tf.ensure_shape(edges, [None, 2])
        with tf.control_dependencies(_edge_checks(edges, weights, n)):
            weights = tf.cast(weights, tf.float64)
        indices, values = self._normalized(edges, weights, n)
        shape = tf.stack([n, n])

        def aggregate(level: int, table: tf.Tensor, scores: Any) -> tf.Tensor:
            if scores is None:
                return self._apply(indices, values, shape, table)
            attention = self._attention(
                tf.gather(scores[:, 0], indices[:, 0]),
                tf.gather(scores[:, 1], indices[:, 1]),
            )
            return self._apply(indices, values * attention, shape, table)

        z = self._forward(projected, aggregate)
        return self._answer(_finite(z, _TOO_LARGE))

    def _normalized(
        self, edges: tf.Tensor, weights: tf.Tensor, n: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The re-normalised adjacency of an edge list, row-major."""
        indices, entries = _looped(edges, weights, n)
        degrees = tf.math.unsorted_segment_sum(entries, indices[:, 0], n)
        row, column = tf.unstack(tf.gather(degrees, indices), axis=1)
        if self._form.normalization == "row":
            values = entries / row
        else:
            values = entries / tf.sqrt(row * column)
        if not self._form.two_hop:
            diagonal = tf.equal(indices[:, 0], indices[:, 1])
            weight = tf.cast(self._form.identity_weight, tf.float64)
            values += tf.where(diagonal, weight, 0.0)
        return indices, tf.cast(values, tf.float32)

    def _apply(
        self, indices: tf.Tensor, values: tf.Tensor, shape: Any, table: Any
    ) -> tf.Tensor:
        """M t; with two hops (M + M^2) t + identity_weight t."""
        product = sparse_product(indices, values, shape, table)
        if not self._form.two_hop:
            return product
        again = sparse_product(indices, values, shape, product)
        return product + again + self._form.identity_weight * table

    # Features.

    def _project(self, features: tf.Tensor) -> tf.Tensor:
        message = "features: expected finite numbers; in rows:"
        scaled = self._scale(_finite(features, message))
        return tf.matmul(scaled, self._projection)

    def _scale(self, features: tf.Tensor) -> tf.Tensor:
        """As `features.scale_features`, of rows [n, n_features]."""
        wide = tf.cast(features, tf.float64)
        if self._form.scaling == "raw":
            return tf.identity(features)
        if self._form.scaling == "standard":
            wide = (wide - self._center) / self._spread
        elif self._form.scaling == "row":
            norms = tf.reduce_sum(tf.abs(wide), axis=1, keepdims=True)
            wide = tf.math.divide_no_nan(wide, norms)
        else:
            norms = tf.sqrt(tf.reduce_sum(wide**2, axis=1, keepdims=True))
            wide = tf.math.divide_no_nan(wide, norms)
        return tf.cast(wide, tf.float32)

    def _project_sparse(
        self, places: tf.Tensor, values: tf.Tensor, n: tf.Tensor
    ) -> tf.Tensor:
        bound = tf.stack([n, self.n_features])
        inside = tf.reduce_all((places >= 0) & (places < bound), axis=1)
        good = tf.math.is_finite(values)
        checks = [
            _require(
                tf.equal(tf.shape(places)[0], tf.size(values)),
                "feature_values: expected one for each of feature_indices",
                tf.size(values),
            ),
            _require(
                tf.reduce_all(inside),
                "feature_indices: outside the features:",
                tf.boolean_mask(places, ~inside),
            ),
            _require(
                tf.reduce_all(good),
                "feature_values: expected finite numbers; at:",
                tf.where(~good)[:, 0],
            ),
        ]
        with tf.control_dependencies(checks):
            places, values = _summed(places, values, self.n_features)
        values = self._scale_sparse(places, values, n)
        shape = tf.stack([n, self.n_features])
        product = sparse_product(places, values, shape, self._projection)
        if self._form.scaling != "standard":
            return product
        # (x - m) / s P = x / s P - m / s P: centring makes nothing dense.
        center = tf.cast(self._center / self._spread, tf.float32)
        return product - tf.matmul(center[None], self._projection)

    def _scale_sparse(
        self, places: tf.Tensor, values: tf.Tensor, n: tf.Tensor
    ) -> tf.Tensor:
        """As `_scale`, of values at places; without the centring."""
        wide = tf.cast(values, tf.float64)
        if self._form.scaling == "raw":
            return values
        if self._form.scaling == "standard":
            wide /= tf.gather(self._spread, places[:, 1])
            return tf.cast(wide, tf.float32)
        terms = tf.abs(wide) if self._form.scaling == "row" else wide**2
        norms = tf.math.unsorted_segment_sum(terms, places[:, 0], n)
        if self._form.scaling == "l2":
            norms = tf.sqrt(norms)
        wide = tf.math.divide_no_nan(wide, tf.gather(norms, places[:, 0]))
        return tf.cast(wide, tf.float32)


@dataclasses.dataclass(frozen=True)
class _Links:
    """Links of new nodes: owners, rows, values [m]; loops [n] at themselves."""

    owners: tf.Tensor
    rows: tf.Tensor
    values: tf.Tensor
    loops: tf.Tensor


def _variable(value: Any) -> tf.Variable:
    return tf.Variable(value, trainable=False)


def _lookup(path: str, dtype: tf.DType) -> tf.lookup.StaticHashTable:
    """From an id to the line that it is in; -1 for others."""
    whole = dtype == tf.string
    lines = tf.lookup.TextFileInitializer(
        path,
        dtype,
        tf.lookup.TextFileIndex.WHOLE_LINE if whole else 0,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    return tf.lookup.StaticHashTable(lines, -1)


def _require(good: tf.Tensor, message: str, *data: tf.Tensor) -> Any:
    """InvalidArgumentError with the message and the data unless `good`."""
    return tf.debugging.Assert(good, [message, *data])


# Of logits: features may be finite and yet too large.
_TOO_LARGE = "features or weights: too large for float32; no answer in rows:"


def _finite(table: tf.Tensor, message: str) -> tf.Tensor:
    """The table, or InvalidArgumentError with the message and bad rows."""
    good = tf.reduce_all(tf.math.is_finite(table), axis=1)
    check = _require(tf.reduce_all(good), message, tf.where(~good)[:, 0])
    with tf.control_dependencies([check]):
        return tf.identity(table)


def _same_shapes(
    n: tf.Tensor, ids: tf.Tensor, mask: tf.Tensor, weights: tf.Tensor
) -> list[Any]:
    expected = tf.stack([n, tf.shape(ids)[1]])
    return [
        _require(
            tf.reduce_all(tf.equal(tf.shape(each), expected)),
            f"{name}: expected a row for each row of features, as wide as "
            "neighbor_ids. Received shape:",
            tf.shape(each),
        )
        for name, each in (
            ("neighbor_ids", ids),
            ("neighbor_mask", mask),
            ("neighbor_weights", weights),
        )
    ]


def _ones(edges: tf.Tensor) -> tf.Tensor:
    return tf.ones(tf.shape(edges)[:1])


def _edge_checks(
    edges: tf.Tensor, weights: tf.Tensor, n: tf.Tensor
) -> list[Any]:
    inside = tf.reduce_all((edges >= 0) & (edges < n), axis=1)
    good = (weights > 0) & tf.math.is_finite(weights)
    return [
        _require(
            tf.reduce_all(inside),
            "edges: expected rows of the features; outside:",
            tf.boolean_mask(edges, ~inside),
        ),
        _require(
            tf.reduce_all(tf.equal(tf.shape(weights), tf.shape(edges)[:1])),
            "edge_weights: expected one for each of edges. Received shape:",
            tf.shape(weights),
        ),
        _require(
            tf.reduce_all(good),
            "edge_weights: expected finite numbers > 0; at:",
            tf.where(~good)[:, 0],
        ),
    ]


def _looped(
    edges: tf.Tensor, weights: tf.Tensor, n: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Places, row-major, and entries of A + I of an edge list."""
    kept = tf.not_equal(edges[:, 0], edges[:, 1])
    edges, weights = (
        tf.boolean_mask(edges, kept),
        tf.boolean_mask(weights, kept),
    )
    sources, targets = edges[:, 0], edges[:, 1]
    codes = [
        sources * n + targets,
        targets * n + sources,
        tf.range(n) * (n + 1),
    ]
    codes = tf.concat(codes, 0)
    entries = tf.concat([weights, weights, tf.ones(n[None], tf.float64)], 0)
    order = tf.argsort(codes, stable=True)
    distinct, segments = tf.unique(tf.gather(codes, order), tf.int64)
    ordered = tf.gather(entries, order)
    most = tf.math.segment_max(ordered, segments)
    agree = tf.equal(tf.math.segment_min(ordered, segments), most)
    places = _places(distinct, n)
    check = _require(
        tf.reduce_all(agree),
        "edge_weights: an edge is given with two weights:",
        tf.boolean_mask(places, ~agree),
    )
    with tf.control_dependencies([check]):
        return places, tf.identity(most)


def _places(codes: tf.Tensor, n_columns: tf.Tensor) -> tf.Tensor:
    """[m, 2] (row, column) of row-major codes."""
    n_columns = tf.maximum(n_columns, 1)
    return tf.stack([codes // n_columns, codes % n_columns], axis=1)


def _summed(
    places: tf.Tensor, values: tf.Tensor, n_columns: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Places and values in row-major order, repeated places summed."""
    codes = places[:, 0] * n_columns + places[:, 1]
    order = tf.argsort(codes, stable=True)
    distinct, segments = tf.unique(tf.gather(codes, order), tf.int64)
    sums = tf.math.segment_sum(tf.gather(values, order), segments)
    return _places(distinct, tf.constant(n_columns, tf.int64)), sums


def sparse_product(
    indices: tf.Tensor, values: tf.Tensor, shape: tf.Tensor, dense: Any
) -> tf.Tensor:
    """Product of a sparse matrix, row-major, and a dense one."""
    width = dense.shape[1]
    terms = tf.size(values, tf.int64) * width
    check = _require(terms <= MOST_TERMS, "too large for one request:", terms)

    def product() -> tf.Tensor:
        matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
            indices=indices, values=values, dense_shape=shape
        )
        return tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense)

    def nothing() -> tf.Tensor:
        return tf.zeros(tf.stack([shape[0], width]))

    # TensorFlow's kernel crashes, with the server, on a matrix without rows.
    with tf.control_dependencies([check]):
        result = tf.cond(terms > 0, product, nothing)
    return tf.ensure_shape(result, [None, width])
