"""A graph as a folder of .npy files, to be memory-mapped.

    manifest.json       what the folder holds: see `_write_graph`
    indptr.npy, indices.npy, weights.npy            the adjacency, CSR
    features.npy        dense; or features_{indptr,indices,values}.npy, CSR
    labels.npy, train_nodes.npy, val_nodes.npy, test_nodes.npy
    node_ids.npy        where the user's nodes have names
    derived/<name>/     arrays computed from it, each with its own manifest

A folder gets its name only when it is complete, so a process that is killed,
or two that convert at once, leave no half-written store behind. A folder that
it replaces is .<name>.old for a moment; if the process is killed in it, who
opens or writes the store next brings that back. Every file's size and CRC-32
are checked when the store is opened; one that does not agree is built anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.adjacency import EdgeStatistics, csr_matrix_of
from adaptive_gcn.datasets.npy_stream import write_blocks
from adaptive_gcn.errors import DataError, GraphError
from adaptive_gcn.features import row_blocks
from adaptive_gcn.graph import Graph

_LOG = logging.getLogger(__name__)

FORMAT = "adaptive_gcn graph"
VERSION = 1
MANIFEST = "manifest.json"
_CHUNK = 2**22


class StoreError(DataError):
    """A folder is not a complete store of this version."""


def write_store(
    graph: Graph,
    folder: str | os.PathLike[str],
    source: Any = None,
    overwrite: bool = False,
) -> Graph:
    """Write a graph to a new folder and return it memory-mapped.

    Args:
        graph: Any graph.
        folder: Where; must not exist, or be an empty folder.
        source: JSON value that says what the graph was made from.
        overwrite: Whether a store, whole or broken, may be there; it stays
            until the new one is complete.

    Raises:
        StoreError: If there is something at `folder`.
        OSError: If it cannot be written; nothing is left behind.
    """
    path = Path(folder).resolve()
    with _locked(path):
        occupied = path.exists() and (not path.is_dir() or any(path.iterdir()))
        if occupied and not (overwrite and _was_store(path)):
            raise StoreError(
                f"{path}: expected no file or an empty folder to write a store "
                "to; name another, or remove it"
            )
        manifest = _publish(path, lambda new: _write_graph(graph, new, source))
    return _graph_of(path, manifest)


def read_store(folder: str | os.PathLike[str]) -> Graph:
    """Open a store: its arrays stay on disk until they are used.

    Raises:
        StoreError: If the folder is not a store of this version, or a file is
            missing, cut or altered; the message names it.
        GraphError: If the arrays are not a valid graph.
    """
    path = Path(folder)
    if not path.exists() and _aside(path).exists():
        with _locked(path):
            pass  # It has brought back what a killed process set aside.
    return _graph_of(path, _verified_manifest(path))


def cached_store(
    folder: str | os.PathLike[str],
    make: Callable[[], Graph],
    source: Any = None,
) -> Graph:
    """Open the store at `folder`; make it first if it is not there or broken.

    Several processes may ask for the same store at once: one makes it, the
    others wait.

    Args:
        folder: The store.
        make: Returns the graph to store.
        source: See `write_store`.

    Raises:
        OSError: If the store cannot be written.
    """
    path = Path(folder)
    manifest = _cached(path, lambda new: _write_graph(make(), new, source))
    return _graph_of(path, manifest)


def _was_store(folder: Path) -> bool:
    """Whether a manifest at `folder` says that it is a store."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        return bool(manifest["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def derived_array(
    folder: Path,
    name: str,
    shape: tuple[int, ...],
    blocks: Callable[[], Iterator[npt.NDArray[np.float32]]],
) -> npt.NDArray[np.float32]:
    """An array computed once from a store and kept beside it.

    Args:
        folder: The store.
        name: Name of the array, which must say how it was computed.
        shape: Its shape.
        blocks: Yields its consecutive blocks along the first axis, float32;
            only called if the array is not there yet.

    Returns:
        The array, memory-mapped.
    """
    path = folder / "derived" / name
    _cached(path, lambda new: _write_derived(new, name, shape, blocks()))
    array: npt.NDArray[np.float32] = np.load(path / "array.npy", mmap_mode="r")
    return array


def fingerprint(source: Any) -> str:
    """A short name for what a store is made from."""
    text = json.dumps([FORMAT, VERSION, source], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write_graph(graph: Graph, folder: Path, source: Any) -> dict[str, Any]:
    for name, array in _arrays_of(graph).items():
        _write_blocks(folder / name, array.shape, array.dtype, _pieces(array))
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "source": source,
        "class_names": list(graph.class_names),
        "n_nodes": graph.n_nodes,
        "n_features": graph.n_features,
        "n_edges": graph.n_edges,
        "edge_statistics": dataclasses.asdict(graph.edge_statistics),
    }


def _arrays_of(graph: Graph) -> dict[str, npt.NDArray[Any]]:
    features = graph.features
    if sparse.issparse(features):
        parts = {
            "features_indptr.npy": features.indptr,
            "features_indices.npy": features.indices,
            "features_values.npy": features.data,
        }
    else:
        parts = {"features.npy": features}
    if graph.node_ids is not None:
        parts["node_ids.npy"] = graph.node_ids
    return {
        "indptr.npy": graph.adjacency.indptr,
        "indices.npy": graph.adjacency.indices,
        "weights.npy": graph.adjacency.data,
        "labels.npy": graph.labels,
        "train_nodes.npy": graph.train_nodes,
        "val_nodes.npy": graph.val_nodes,
        "test_nodes.npy": graph.test_nodes,
        **parts,
    }


def _graph_of(folder: Path, manifest: dict[str, Any]) -> Graph:
    files = manifest["files"]

    def load(name: str) -> npt.NDArray[Any]:
        if name not in files:
            raise KeyError(name)
        array: npt.NDArray[Any] = np.load(folder / name, mmap_mode="r")
        return array

    try:
        if "features.npy" in files:
            features: Any = load("features.npy")
        else:
            features = sparse.csr_array(
                (
                    load("features_values.npy"),
                    load("features_indices.npy"),
                    load("features_indptr.npy"),
                ),
                (manifest["n_nodes"], manifest["n_features"]),
            )
        return Graph(
            adjacency=csr_matrix_of(
                load("weights.npy"), load("indices.npy"), load("indptr.npy")
            ),
            features=features,
            labels=load("labels.npy"),
            train_nodes=load("train_nodes.npy"),
            val_nodes=load("val_nodes.npy"),
            test_nodes=load("test_nodes.npy"),
            class_names=tuple(manifest["class_names"]),
            name=manifest["name"],
            edge_statistics=EdgeStatistics(**manifest["edge_statistics"]),
            node_ids=load("node_ids.npy") if "node_ids.npy" in files else None,
            store=folder,
        )
    except GraphError:
        raise
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise StoreError(
            f"{folder / MANIFEST}: not the manifest of a graph: {error!r}"
        ) from error


def _write_derived(
    folder: Path,
    name: str,
    shape: tuple[int, ...],
    blocks: Iterator[npt.NDArray[np.float32]],
) -> dict[str, Any]:
    _write_blocks(
        folder / "array.npy", shape, np.dtype(np.float32), _finite(name, blocks)
    )
    return {"format": FORMAT, "version": VERSION, "name": name}


def _finite(
    name: str, blocks: Iterator[npt.NDArray[np.float32]]
) -> Iterator[npt.NDArray[np.float32]]:
    for block in blocks:
        n_bad = int(np.count_nonzero(~np.isfinite(block)))
        if n_bad:
            raise DataError(
                f"{name}: {n_bad} values of a block are not finite; the "
                "features are too large for 32-bit numbers"
            )
        yield block


def _pieces(array: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """The array in blocks of rows, so that a memory map passes through."""
    if array.ndim == 2:
        for _, block in row_blocks(array):
            yield block
    else:
        yield array


def _write_blocks(
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Iterator[npt.NDArray[Any]],
) -> None:
    """Write an .npy file without holding all of it."""
    with open(path, "wb") as file:
        written = write_blocks(file, shape, dtype, blocks)
        file.flush()
        os.fsync(file.fileno())
    if written != shape[0]:
        raise DataError(f"{path}: {written} rows, expected shape {shape}")


def _cached(
    folder: Path, write: Callable[[Path], dict[str, Any]]
) -> dict[str, Any]:
    """The manifest of `folder`, made by `write` if it is not there."""
    with contextlib.suppress(StoreError):
        return _verified_manifest(folder)
    with _locked(folder):
        try:
            return _verified_manifest(folder)  # Another process was faster.
        except StoreError as error:
            if folder.exists():
                _LOG.warning("%s; it is built anew", error)
        return _publish(folder, write)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the right to make `folder`. It ends with the process, too."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f".{folder.name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOG.info("%s: another process makes it; waiting", folder)
            fcntl.flock(file, fcntl.LOCK_EX)
        _bring_back(folder)
        yield


def _aside(folder: Path) -> Path:
    """Where the old `folder` is while a new one takes its name."""
    return folder.with_name(f".{folder.name}.old")


def _bring_back(folder: Path) -> None:
    """Undo, or complete, what a killed process began in `_replace`."""
    old = _aside(folder)
    if old.exists() and folder.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(folder)


def _replace(folder: Path, new: Path) -> None:
    """Give `new` the name of `folder`; at every moment one of them is whole."""
    if folder.exists():
        folder.rename(_aside(folder))
    new.rename(folder)
    shutil.rmtree(_aside(folder), ignore_errors=True)


def _publish(
    folder: Path, write: Callable[[Path], dict[str, Any]]
) -> dict[str, Any]:
    """Let `write` fill a new folder, give it its name, return its manifest."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}.part-"
    for stale in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(stale, ignore_errors=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix))
    try:
        manifest = write(new)
        files = {each.name: _file_entry(each) for each in sorted(new.iterdir())}
        manifest = {**manifest, "files": files}
        _write_manifest(new, manifest)
        new.chmod(0o755)
        _replace(folder, new)
        return manifest
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        _bring_back(folder)
        raise


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    with open(folder / MANIFEST, "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _file_entry(path: Path) -> dict[str, Any]:
    array = np.load(path, mmap_mode="r")
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "bytes": path.stat().st_size,
        "crc32": _crc32(path),
    }


def _crc32(path: Path) -> str:
    """Detects damage at the speed of memory; it is no proof of origin."""
    value = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return f"{value:08x}"


def _verified_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, after every file was found to agree with it."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        kind, version = manifest["format"], manifest["version"]
        files = dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: cannot be read: {error!r}") from error
    if (kind, version) != (FORMAT, VERSION):
        raise StoreError(
            f"{path}: expected format {FORMAT!r}, version {VERSION}. "
            f"Received: {kind!r}, {version!r}"
        )
    for name, expected in files.items():
        _verify_file(folder / name, expected)
    return dict(manifest)


def _verify_file(path: Path, expected: Any) -> None:
    try:
        size, crc32 = expected["bytes"], expected["crc32"]
    except (KeyError, TypeError) as error:
        raise StoreError(f"{path}: no size and checksum on record") from error
    received = path.stat().st_size if path.is_file() else None
    if received is None or received != size:
        found = "no file" if received is None else f"{received} bytes"
        raise StoreError(f"{path}: expected {size} bytes, received {found}")
    found = _crc32(path)
    if found != crc32:
        raise StoreError(f"{path}: expected CRC-32 {crc32}, received {found}")
