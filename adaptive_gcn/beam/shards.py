"""A folder whose tables are cut into several files, shards."""

from __future__ import annotations

import pathlib

from adaptive_gcn.datasets.download import DataNotFoundError
from adaptive_gcn.datasets.raw_files import load_npy
from adaptive_gcn.datasets.table_graph import FORMS
from adaptive_gcn.errors import DataError

_SPLIT = ("edges", "nodes")  # What may be in several files.


def find_shards(folder: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    """The files of a folder by what they hold, in the order of their names.

    A part is in one file, `edges.csv`, or in several, `edges-00000.csv`,
    `edges-00001.csv` and so on, all of one form.

    Raises:
        DataError: If there are no edges, or a part is there in two forms.
    """
    if not folder.is_dir():
        raise DataNotFoundError(
            f"--dataset_dir={folder}: there is no such folder"
        )
    found = {}
    for part, suffixes in FORMS.items():
        forms = [
            paths
            for suffix in suffixes
            for pattern in (part, f"{part}-*")
            if (paths := sorted(folder.glob(f"{pattern}{suffix}")))
            and (part in _SPLIT or pattern == part)
        ]
        if len(forms) > 1:
            names = ", ".join(paths[0].name for paths in forms)
            raise DataError(
                f"--dataset_dir={folder}: expected {part} in one form. "
                f"Received: {names}; move the others away"
            )
        if forms:
            found[part] = forms[0]
    if "edges" not in found:
        raise DataError(
            f"--dataset_dir={folder}: expected edges.csv, or edges-00000.csv "
            "and so on (or .tsv, .txt, .parquet, .npy, .npz)"
        )
    _check_all_used(folder, found)
    return found


def _check_all_used(
    folder: pathlib.Path, found: dict[str, list[pathlib.Path]]
) -> None:
    """Refuse what looks like a shard and is none, as a part would lack it."""
    used = {path for paths in found.values() for path in paths}
    for path in sorted(folder.iterdir()):
        name = path.name.lower()
        looks_like = (f"{part}{end}" for part in FORMS for end in "-.")
        if path not in used and name.startswith(tuple(looks_like)):
            raise DataError(
                f"{path}: is not read; expected edges and nodes as .csv, "
                ".parquet and so on, not compressed, features and labels in "
                "one file; convert it or move it away"
            )


def check_pairs(paths: list[pathlib.Path]) -> None:
    """Refuse shards that may be two edges, or the ends of two edges.

    Raises:
        DataError: If a .npy file among several is of shape [2, 2].
    """
    for path in paths:
        if len(paths) > 1 and path.suffix == ".npy":
            if load_npy(path, mmap_mode="r").shape == (2, 2):
                raise DataError(
                    f"{path}: of shape [2, 2] it may be [n_edges, 2] or the "
                    "other way round; join it with another shard"
                )
