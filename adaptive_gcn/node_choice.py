"""The nodes that --nodes names: all, a part of the split, or a list of ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import Graph

SHOWN = 60  # Characters of a line in a message.


def ids_of(graph: Graph, nodes: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The user's ids of nodes, int64 or str."""
    return nodes if graph.node_ids is None else graph.node_ids[nodes]


def chosen_nodes(graph: Graph, choice: str) -> npt.NDArray[np.int64]:
    """The nodes of `graph` that `choice` names, in its order, repeats too.

    Args:
        graph: The graph.
        choice: all, train, val, test, or a text file with one of the user's
            ids a line; blank lines are left out, and so are blanks around an id
            that are no part of it.

    Raises:
        DataError: If a line is no id of the graph; the message names it. Or
            if there is no such file, or it cannot be read.
    """
    parts = {
        "all": np.arange(graph.n_nodes),
        "train": graph.train_nodes,
        "val": graph.val_nodes,
        "test": graph.test_nodes,
    }
    if choice in parts:
        return parts[choice]
    return _listed_nodes(graph, Path(choice))


def _listed_nodes(graph: Graph, path: Path) -> npt.NDArray[np.int64]:
    place = {
        str(name): node
        for node, name in enumerate(ids_of(graph, np.arange(graph.n_nodes)))
    }
    lines = enumerate(_lines(path), start=1)
    words = {
        number: line if line in place else line.strip()
        for number, line in lines
        if line in place or line.strip()
    }
    unknown = [number for number in words if words[number] not in place]
    if unknown:
        raise DataError(
            f"--nodes={path}: expected one id a line, written as in "
            f"{graph.name}, whose first is {next(iter(place))!r}. Received "
            f"{len(unknown)} that are none, the first is line {unknown[0]}: "
            f"{words[unknown[0]][:SHOWN]!r}"
        )
    return np.array([place[word] for word in words.values()], np.int64)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"--nodes={path}: not UTF-8 text: {error}") from error
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL.
        raise DataError(
            f"--nodes={path}: expected all, train, val, test, or a file with "
            f"one id a line; it cannot be read ({error})"
        ) from error
    return text.split("\n")
