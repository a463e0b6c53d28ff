"""Which records are those of the present code and settings."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import adaptive_gcn
from adaptive_gcn.config import PLACES, Config, later_settings

_PACKAGE = Path(adaptive_gcn.__file__).parent
# What the numbers of most runs do not depend on: how runs are started, logged,
# stored and reported, how users' own graphs are read. All other modules count.
_OTHER_MODULES = {
    "ahead.py",
    "check_data.py",
    "checkpoint.py",
    "checkpoint_file.py",
    "confusion.py",
    "conversions.py",
    "distributed.py",
    "errors.py",
    "export.py",
    "graph_digest.py",
    "main.py",
    "memory.py",
    "memory_map.py",
    "memory_needed.py",
    "node_choice.py",
    "predict.py",
    "resume.py",
    "run_folder.py",
    "same_run.py",
    "served_model.py",
    "stopping.py",
    "versions.py",
    "warm_up.py",
    "watching.py",
    *(
        f"datasets/{name}.py"
        for name in (
            "assemble",
            "builders",
            "checksums",
            "columns",
            "data_warnings",
            "download",
            "edge_files",
            "faults",
            "folder",
            "folder_options",
            "graph_parts",
            "labels",
            "musae",
            "new_file",
            "node_files",
            "node_npz",
            "npy_stream",
            "raw_files",
            "restricted_pickle",
            "store",
            "table_graph",
            "tables",
            "writers",
        )
    ),
}
# What the numbers of the variance study depend on besides, and those of the
# dense graph, which is in a file that people share.
_STUDY = "experiments/variance_study.py"
_READERS = tuple(
    f"datasets/{name}.py"
    for name in ("assemble", "folder", "graph_parts", "labels", "node_npz")
)
# Flags that change no number. A flag that came later counts once it differs
# from its default, which is what was done before.
_FREE = {*PLACES, "block_entries"}


def of_run(config: Config) -> dict[str, str]:
    """Short hashes of the code and of the settings that a run depends on."""
    later = later_settings({})
    settings = {
        name: value
        for name, value in config.as_dict().items()
        if name not in _FREE and not (name in later and value == later[name])
    }
    text = json.dumps(settings, sort_keys=True)
    return {"code": _code_for(config), "settings": _short(text)}


def of_study(config: Config) -> dict[str, str]:
    """Short hashes of the code and settings of a variance study."""
    parts = [_code_for(config), _meaning_of(_STUDY)]
    return of_run(config) | {"code": _short("\n".join(parts))}


def _code_for(config: Config) -> str:
    return _code_with_readers() if config.dataset == "folder" else code()


@functools.cache
def _code_with_readers() -> str:
    return _short("\n".join([code(), *map(_meaning_of, _READERS)]))


@functools.cache
def code() -> str:
    """Hash of the modules that count, without comments and layout."""
    names = [
        path.relative_to(_PACKAGE).as_posix()
        for folder in (".", "sampling", "datasets")
        for path in sorted((_PACKAGE / folder).glob("*.py"))
    ]
    counted = (name for name in names if name not in _OTHER_MODULES)
    return _short("\n".join(map(_meaning_of, counted)))


def _meaning_of(name: str) -> str:
    return _meaning((_PACKAGE / name).read_text("utf-8"))


def _meaning(source: str) -> str:
    """Source without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body: list[Any] = getattr(node, "body", [])
        if body and isinstance(body, list) and _is_text(body[0]):
            del body[0]
    return ast.unparse(tree)


def _is_text(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
