"""What a run to go on with has left, and whether it is the same run.

No TensorFlow here: what does not fit is refused before anything is built.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adaptive_gcn import checkpoint_file, run_folder
from adaptive_gcn.checkpoint_file import Arrays, CheckpointError
from adaptive_gcn.config import PLACES, Config, later_settings
from adaptive_gcn.graph import Graph
from adaptive_gcn.graph_digest import digest

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What a checkpoint holds.

    Attributes:
        values: JSON values: settings, checksums of the graph, epoch, history.
        arrays: Weights and the like, by name.
        path: The file.
    """

    values: dict[str, Any]
    arrays: Arrays
    path: Path


def settings_of(config: Config) -> dict[str, Any]:
    """The settings that may bear on the result."""
    values = config.as_dict()
    return {name: values[name] for name in values if name not in PLACES}


def finished_record(config: Config, folder: Path) -> dict[str, Any] | None:
    """The record of the run in `folder` if it is at its end.

    Raises:
        CheckpointError: If the run there has other settings.
        RunFolderError: If its records cannot be read.
    """
    path = folder / run_folder.CONFIG
    if path.exists():
        _check_settings(path, run_folder.read_json(path), config)
    if not (folder / run_folder.RESULT).exists():
        return None
    _LOG.info("%s: the run is finished; nothing to resume", folder)
    return run_folder.read_json(folder / run_folder.RESULT)


def snapshot(config: Config, graph: Graph, folder: Path) -> Snapshot | None:
    """The checkpoint in `folder`; None, said, if there is none.

    Raises:
        CheckpointError: If it is damaged, or of other settings or another
            graph; the message names each difference.
    """
    path = folder / run_folder.CHECKPOINT
    if not path.exists():
        _LOG.info("%s: no checkpoint there; starting anew", folder)
        return None
    values, arrays = checkpoint_file.read(path)
    missing = {"settings", "graph", "versions"} - values.keys()
    if missing:
        raise CheckpointError(f"{path}: has no {', '.join(sorted(missing))}")
    _check_settings(path, values["settings"], config)
    _check_graph(path, values["graph"], graph)
    _warn_of_versions(path, values["versions"])
    return Snapshot(values, arrays, path)


def _check_settings(
    path: Path, stored: Mapping[str, Any], config: Config
) -> None:
    known = later_settings(stored) | dict(stored)
    wrong = [
        f"--{name}={value} (there: {known.get(name)})"
        for name, value in settings_of(config).items()
        if known.get(name) != value
    ]
    if wrong:
        raise CheckpointError(
            f"{path}: of a run with other settings: {', '.join(wrong)}; give "
            "the same flags, or another --output_dir"
        )


def _check_graph(path: Path, stored: Mapping[str, int], graph: Graph) -> None:
    wrong = [
        part for part, crc in digest(graph).items() if stored.get(part) != crc
    ]
    if wrong:
        raise CheckpointError(
            f"{path}: of a run on another graph: {graph.name} has other "
            f"{', '.join(wrong)} now; bring back the files of that run, or "
            "give another --output_dir"
        )


def _warn_of_versions(path: Path, stored: Mapping[str, str]) -> None:
    found = run_folder.versions()
    changed = [
        f"{name} {stored.get(name)} -> {version}"
        for name, version in found.items()
        if stored.get(name) != version
    ]
    if changed:
        _LOG.warning(
            "%s: made with other versions (%s); the numbers may differ in the "
            "last digits from those of an uninterrupted run",
            path,
            ", ".join(changed),
        )
