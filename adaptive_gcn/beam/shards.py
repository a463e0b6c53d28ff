"""A folder whose tables are cut into several files, shards."""

from __future__ import annotations

import pathlib

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
    return found
