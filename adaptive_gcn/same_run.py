"""Whether graph and weights are still those of a run, for all who use them.

A folder without result.json is of a run that did not end; nothing is compared.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from adaptive_gcn import graph_digest, run_folder
from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import Graph

SAME_ACCURACY = 5e-3  # A tie may turn between machines; settings move more.


def nodes_to_compare(graph: Graph, folder: Path) -> npt.NDArray[np.int64]:
    """The validation nodes, by which the weights of a run are known again.

    Another split is refused: nodes that the run learned from must not be
    taken for others.

    Raises:
        DataError: If there are none, and `folder` has the result of a run.
        run_folder.RunFolderError: If that run had other training or
            validation nodes.
    """
    path = folder / run_folder.RESULT
    if not path.exists():
        return graph.val_nodes
    if not len(graph.val_nodes):
        raise DataError(
            f"{graph.name}: expected the validation nodes of the run, to see "
            "that its weights still do what they did. Received none; give the "
            "graph with the split of the run"
        )
    trained = run_folder.read_json(path).get("selection_checksum")
    if trained not in (None, graph_digest.of_selection(graph)):
        raise run_folder.RunFolderError(
            f"{path}: the run had other training or validation nodes than "
            f"{graph.name} has now; give the graph with the split of the run"
        )
    return graph.val_nodes


def check_accuracy(folder: Path, val_accuracy: float) -> None:
    """Refuse a network that does not do what the run in `folder` recorded.

    Settings changed by hand would give another network in silence.

    Args:
        folder: The folder of the run.
        val_accuracy: Accuracy now, of `nodes_to_compare`.

    Raises:
        run_folder.RunFolderError: If its validation accuracy is another one.
    """
    path = folder / run_folder.RESULT
    if not path.exists():
        return
    trained = run_folder.read_json(path).get("val_accuracy")
    if trained is None or abs(trained - val_accuracy) > SAME_ACCURACY:
        raise run_folder.RunFolderError(
            f"{path}: has validation accuracy {trained}, but now it is "
            f"{val_accuracy:.4f}; settings, weights or data have changed"
        )
