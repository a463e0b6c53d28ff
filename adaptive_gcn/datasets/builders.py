"""Cora, Citeseer and Pubmed as TensorFlow Datasets.

Importing this module registers them:

```python
import adaptive_gcn.datasets.builders
import tensorflow_datasets as tfds

(graph,) = tfds.load("planetoid/cora", split="train")
```

A graph cannot be cut into independent examples, so that the whole of it is
the only example of the only TFDS split, "train". Which nodes train, validate
and test is part of the example.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from adaptive_gcn.datasets import planetoid
from adaptive_gcn.graph import Graph

_CITATION = """\
@inproceedings{yang2016revisiting,
  title = {Revisiting Semi-Supervised Learning with Graph Embeddings},
  author = {Yang, Zhilin and Cohen, William and Salakhudinov, Ruslan},
  booktitle = {International Conference on Machine Learning},
  pages = {40--48},
  year = {2016}
}"""

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
