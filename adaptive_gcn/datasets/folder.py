"""A user's own graph: one file or folder in whichever form it is.

docs/own_graph.md has the forms.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib

from adaptive_gcn.datasets import node_npz
from adaptive_gcn.datasets.assemble import assemble
from adaptive_gcn.datasets.download import DataNotFoundError
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.graph import Graph
from adaptive_gcn.split_rule import SplitRule


@dataclasses.dataclass(frozen=True)
class FolderOptions:
    """How to read a user's graph.

    Attributes:
        columns: See `--columns`.
        missing_features: See `--missing_features`.
        split: A given or random split.
        split_seed: Seed of a random one.
    """

    columns: str = ""
    missing_features: str = "refuse"
    split: SplitRule = SplitRule("given")
    split_seed: int = 0


def read_folder(
    place: str | os.PathLike[str], options: FolderOptions | None = None
) -> Graph:
    """Read the graph at `place`, a folder or a file.

    Raises:
        FaultyDataError: If there are faults; it has all that could be found.
        DataError: If a file is damaged, or its form is unknown.
        OSError: If something cannot be read.
    """
    options = options or FolderOptions()
    path = pathlib.Path(place)
    if not path.exists():
        raise DataNotFoundError(
            f"--dataset_dir={path}: there is no such folder or file"
        )
    faults = Faults()
    parts = _read(path, options, faults)
    return assemble(
        parts,
        options.split,
        options.split_seed,
        options.missing_features,
        faults,
    )


def _read(
    path: pathlib.Path, options: FolderOptions, faults: Faults
) -> GraphParts:
    return node_npz.read_node_npz(path, faults)
