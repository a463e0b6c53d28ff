"""Cora, Citeseer, Pubmed and Reddit as TensorFlow Datasets.

Importing this module registers them:

```python
import adaptive_gcn.datasets.builders
import tensorflow_datasets as tfds

(graph,) = tfds.load("planetoid/cora", split="train")
```

A graph cannot be cut into independent examples, so that the whole of it is
in the only TFDS split, "train". Which nodes train, validate and test is part
of the examples. A citation graph is one example. Reddit is one example for
every 4096 nodes, which takes half the memory; put it together with

```python
blocks = tfds.as_numpy(tfds.load("reddit/graphsage", split="train"))
graph = adaptive_gcn.datasets.builders.graph_from_blocks(blocks)
```
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow_datasets as tfds

from adaptive_gcn.datasets import download, planetoid, reddit
from adaptive_gcn.errors import GraphError
from adaptive_gcn.graph import Graph

_CITATION = """\
@inproceedings{yang2016revisiting,
  title = {Revisiting Semi-Supervised Learning with Graph Embeddings},
  author = {Yang, Zhilin and Cohen, William and Salakhudinov, Ruslan},
  booktitle = {International Conference on Machine Learning},
  pages = {40--48},
  year = {2016}
}"""

_REDDIT_CITATION = """\
@inproceedings{hamilton2017inductive,
  title = {Inductive Representation Learning on Large Graphs},
  author = {Hamilton, William L. and Ying, Rex and Leskovec, Jure},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2017}
}"""

BLOCK_NODES = 4096

_N_FEATURES = {"cora": 1433, "citeseer": 3703, "pubmed": 500}


class Planetoid(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """Citation networks: documents, their words and their citations.

    The files are taken from TFDS's `manual_dir` if they are there, else from
    where `adaptive_gcn.datasets.download.locate` finds or puts them.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "Split of FastGCN."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Optional: the eight files ind.<name>.*, also in a subfolder "
        "`planetoid`. Without them they are found or fetched."
    )
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=key) for key in _N_FEATURES]

    def _info(self) -> tfds.core.DatasetInfo:
        n_features = _N_FEATURES[self.builder_config.name]
        ids = tfds.features.Tensor(shape=(None,), dtype=np.int64)
        return self.dataset_info_from_configs(
            description=type(self).__doc__,
            features=tfds.features.FeaturesDict(
                {
                    "num_nodes": np.int64,
                    "node_feat": tfds.features.Tensor(
                        shape=(None, n_features),
                        dtype=np.float32,
                        encoding="zlib",
                    ),
                    # Unique, without self-loops, in both directions.
                    "edge_index": tfds.features.Tensor(
                        shape=(None, 2), dtype=np.int64
                    ),
                    "labels": ids,  # -1 where unknown.
                    "train_nodes": ids,
                    "val_nodes": ids,
                    "test_nodes": ids,
                }
            ),
            homepage="https://github.com/kimiyoung/planetoid",
            citation=_CITATION,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[str, dict[str, Any]]]]:
        folder = _manual_dir(dl_manager, self.builder_config.name)
        return {"train": self._generate_examples(folder)}

    def _generate_examples(
        self, data_dir: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        name = self.builder_config.name
        yield name, _example(planetoid.load_planetoid(name, data_dir))


class Reddit(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """Reddit posts, joined if a user commented on both; classes are forums.

    The configuration is the format of the files, see
    `adaptive_gcn.datasets.reddit`: "graphsage" and "converter" are the graph
    of the paper, "dgl" is ten times as dense. The files are taken from TFDS's
    `manual_dir` if they are there, else from where
    `adaptive_gcn.datasets.download.data_root` points; they are never fetched.

    An example is a block of consecutive nodes: their features, classes and
    split, and their rows of the adjacency. Row i of a block has the next
    `row_lengths[i]` of `neighbors`, numbers of nodes in the whole graph.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "Blocks of 4096 nodes."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "The files of one format, also in a subfolder `reddit`: "
        "reddit-G.json, reddit-feats.npy, reddit-class_map.json and "
        "reddit-id_map.json; or reddit.npz and reddit_adj.npz; or "
        "reddit_data.npz and reddit_graph.npz."
    )
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=name) for name in reddit.FORMATS[1:]
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        ids = _bytes_tensor((None,), np.int64)
        return self.dataset_info_from_configs(
            description=type(self).__doc__,
            features=tfds.features.FeaturesDict(
                {
                    "first_node": np.int64,
                    "node_feat": _bytes_tensor((None, None), np.float32),
                    # Unique, without self-loops, in both directions.
                    "row_lengths": ids,
                    "neighbors": ids,
                    "labels": ids,  # -1 where unknown.
                    "split": ids,  # 0 none, 1 train, 2 validation, 3 test.
                }
            ),
            homepage="http://snap.stanford.edu/graphsage/",
            citation=_REDDIT_CITATION,
            disable_shuffling=True,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        return {"train": self._generate_examples(self._folder(dl_manager))}

    def _folder(
        self, dl_manager: tfds.download.DownloadManager
    ) -> str | os.PathLike[str]:
        try:
            manual: str = os.fspath(dl_manager.manual_dir)
            reddit.files_of(manual, self.builder_config.name)
        except (AssertionError, download.DataNotFoundError):
            return download.data_root()
        return manual

    def _generate_examples(
        self, folder: str | os.PathLike[str]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        graph = reddit.read_reddit(folder, self.builder_config.name)
        codes = graph.split_codes()
        for first in range(0, graph.n_nodes, BLOCK_NODES):
            yield first, _block(graph, codes, first)


def graph_from_blocks(
    blocks: Iterable[Mapping[str, Any]], name: str = "reddit"
) -> Graph:
    """Put the examples of `Reddit` together, in whatever order they come.

    Raises:
        GraphError: If a block is missing, or there twice.
    """
    ordered = sorted(blocks, key=lambda block: int(block["first_node"]))
    n_before = 0
    for block in ordered:
        if block["first_node"] != n_before:
            raise GraphError(
                f"{name}: expected a block that begins with node {n_before}. "
                f"Received: one that begins with node {block['first_node']}"
            )
        n_before += len(block["labels"])
    if not n_before:
        raise GraphError(f"{name}: expected blocks of nodes. Received: none")

    def joined(key: str) -> npt.NDArray[Any]:
        return np.concatenate([block[key] for block in ordered])

    lengths, codes = joined("row_lengths"), joined("split")
    train, val, test = (np.flatnonzero(codes == code) for code in (1, 2, 3))
    return Graph.from_edges(
        (np.repeat(np.arange(len(lengths)), lengths), joined("neighbors")),
        joined("node_feat"),
        joined("labels"),
        train,
        val,
        test,
        name=name,
    )


def _bytes_tensor(shape: tuple[None, ...], dtype: Any) -> Any:
    return tfds.features.Tensor(
        shape=shape, dtype=dtype, encoding=tfds.features.Encoding.BYTES
    )


def _block(
    graph: Graph, codes: npt.NDArray[np.int64], first: int
) -> dict[str, Any]:
    nodes = slice(first, first + BLOCK_NODES)
    indptr = graph.adjacency.indptr[first : first + BLOCK_NODES + 1]
    neighbors = graph.adjacency.indices[indptr[0] : indptr[-1]]
    return {
        "first_node": first,
        "node_feat": np.ascontiguousarray(graph.features[nodes]),
        "row_lengths": np.diff(indptr).astype(np.int64),
        "neighbors": neighbors.astype(np.int64),
        "labels": graph.labels[nodes],
        "split": codes[nodes],
    }


def _manual_dir(dl_manager: tfds.download.DownloadManager, name: str) -> str:
    """TFDS's folder for files obtained by hand; "" if ours are not there."""
    try:
        folder = dl_manager.manual_dir
    except AssertionError:  # How TFDS says that it is absent or empty.
        return ""
    patterns = (
        f"{part}ind.{name}.*" for part in ("", "planetoid/", f"{name}/")
    )
    found = any(any(folder.glob(pattern)) for pattern in patterns)
    return os.fspath(folder) if found else ""


def _example(graph: Graph) -> dict[str, Any]:
    edges = np.stack(graph.adjacency.nonzero(), axis=1).astype(np.int64)
    return {
        "num_nodes": graph.n_nodes,
        "node_feat": graph.features.toarray(),
        "edge_index": edges,
        "labels": graph.labels,
        "train_nodes": graph.train_nodes,
        "val_nodes": graph.val_nodes,
        "test_nodes": graph.test_nodes,
    }
