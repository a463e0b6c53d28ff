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
opens or writes the store next brings that back. When the store is opened, the
CRC-32 of the manifest, the size and CRC-32 of every file, and that they make up
a graph are checked; a store that fails is built anew where its source is known.
What was warned of when the data was read is warned of again.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.adjacency import EdgeStatistics, csr_matrix_of
from adaptive_gcn.datasets import data_warnings
from adaptive_gcn.datasets.npy_stream import write_blocks
from adaptive_gcn.datasets.raw_files import NPY_ERRORS
from adaptive_gcn.errors import DataError
from adaptive_gcn.features import Features, row_blocks
from adaptive_gcn.graph import Graph
from adaptive_gcn.memory_map import StoreFolder

_LOG = logging.getLogger(__name__)

FORMAT = "adaptive_gcn graph"
VERSION = 2
MANIFEST = "manifest.json"
_CHUNK = 2**22
_ARRAY = "array.npy"  # Of a derived array.

_T = TypeVar("_T")
_Manifest = dict[str, Any]


class StoreError(DataError):
    """A folder is not a complete store of this version."""


def write_store(
    graph: Graph,
    folder: str | os.PathLike[str],
    source: Any = None,
    overwrite: bool = False,
    warnings: Sequence[str] = (),
) -> Graph:
    """Write a graph to a new folder and return it memory-mapped.

    Args:
        graph: Any graph.
        folder: Where; must not exist, or be an empty folder.
        source: JSON value that says what the graph was made from.
        overwrite: Whether a store, whole or broken, may be there; it stays
            until the new one is complete.
        warnings: What to warn of whenever the store is opened, see
            `data_warnings.kept`.

    Raises:
        StoreError: If there is something at `folder`.
        OSError: If it cannot be written; nothing is left behind.
    """
    path = Path(folder).resolve()
    with _locked(path):
        check_free(path, overwrite)
        manifest = _publish(
            path, lambda new: _write_graph(graph, new, source, warnings)
        )
    return _graph_of(path, manifest)


def check_free(folder: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse a folder that `write_store` would not write to.

    Raises:
        StoreError: If there is something at `folder`, unless that is a store
            and `overwrite` is true.
    """
    path = Path(folder)
    occupied = path.exists() and (not path.is_dir() or any(path.iterdir()))
    if not occupied:
        return
    is_store = _was_store(path)
    if not (overwrite and is_store):
        remedy = (
            "ask to overwrite it (--overwrite)" if is_store else "remove it"
        )
        raise StoreError(
            f"{path}: expected no file or an empty folder to write a store "
            f"to; name another, or {remedy}"
        )


def read_store(folder: str | os.PathLike[str]) -> Graph:
    """Open a store: its arrays stay on disk until they are used.

    Raises:
        StoreError: If the folder is not a store of this version, a file is
            missing, cut or altered, or they are not a graph; the message
            names it.
    """
    path = Path(folder)
    if not path.exists() and _aside(path).exists():
        with _locked(path):
            pass  # It has brought back what a killed process set aside.
    try:
        return _opened(path, _graph_of)
    except StoreError as error:
        raise StoreError(
            f"{error}. Get the store again, or write it anew from its source "
            "(write_store, or --mode=convert --to=store --overwrite)"
        ) from error


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
        make: Returns the graph to store. What it warns of is kept.
        source: See `write_store`.

    Raises:
        OSError: If the store cannot be written.
    """

    def write(new: Path) -> _Manifest:
        with data_warnings.kept() as warnings:
            graph = make()
        return _write_graph(graph, new, source, warnings)

    return _cached(Path(folder), _graph_of, write)


def _was_store(folder: Path) -> bool:
    """Whether a manifest at `folder` says that it is a store."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        return bool(manifest["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
        name: Name of the array, which must say how it was computed, and
            from what.
        shape: Its shape.
        blocks: Yields its consecutive blocks along the first axis, float32;
            only called if the array is not there yet, or damaged.

    Returns:
        The array, memory-mapped.
    """

    def array_of(path: Path, manifest: _Manifest) -> npt.NDArray[np.float32]:
        with _as_store_error(path, "an array"):
            array = _mapped(path, manifest, _ARRAY)
            _check_same("name", manifest["name"], name)
            _check_same("shape", array.shape, shape)
            _check_same("type", array.dtype, np.dtype(np.float32))
            return array

    return _cached(
        folder / "derived" / name,
        array_of,
        lambda new: _write_derived(new, name, shape, blocks()),
    )


def fingerprint(source: Any) -> str:
    """A short name for what a store is made from."""
    text = json.dumps([FORMAT, VERSION, source], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write_graph(
    graph: Graph, folder: Path, source: Any, warnings: Sequence[str]
) -> _Manifest:
    for name, array in _arrays_of(graph).items():
        _write_blocks(folder / name, array.shape, array.dtype, _pieces(array))
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "source": source,
        "warnings": list(warnings),
        "class_names": list(graph.class_names),
        **_counts_of(graph),
        "edge_statistics": dataclasses.asdict(graph.edge_statistics),
    }


def _counts_of(graph: Graph) -> dict[str, int]:
    return {
        "n_nodes": graph.n_nodes,
        "n_features": graph.n_features,
        "n_classes": graph.n_classes,
        "n_edges": graph.n_edges,
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


def _graph_of(folder: Path, manifest: _Manifest) -> Graph:
    def load(name: str) -> npt.NDArray[Any]:
        return _mapped(folder, manifest, name)

    with _as_store_error(folder, "a graph"):
        named = "node_ids.npy" in manifest["files"]
        graph = Graph(
            adjacency=csr_matrix_of(
                load("weights.npy"), load("indices.npy"), load("indptr.npy")
            ),
            features=_features_of(folder, manifest),
            labels=load("labels.npy"),
            train_nodes=load("train_nodes.npy"),
            val_nodes=load("val_nodes.npy"),
            test_nodes=load("test_nodes.npy"),
            class_names=tuple(manifest["class_names"]),
            name=manifest["name"],
            edge_statistics=EdgeStatistics(**manifest["edge_statistics"]),
            node_ids=load("node_ids.npy") if named else None,
            store=StoreFolder(folder.resolve(), manifest["crc32"]),
        )
        for name, count in _counts_of(graph).items():
            _check_same(name, count, manifest[name])
        return graph


def _features_of(folder: Path, manifest: _Manifest) -> Features:
    if "features.npy" in manifest["files"]:
        return _mapped(folder, manifest, "features.npy")
    data, indices, indptr = (
        _mapped(folder, manifest, f"features_{part}.npy")
        for part in ("values", "indices", "indptr")
    )
    shape = (manifest["n_nodes"], manifest["n_features"])
    return sparse.csr_array((data, indices, indptr), shape)


def _mapped(folder: Path, manifest: _Manifest, name: str) -> npt.NDArray[Any]:
    """An array of the manifest, which has its shape and type."""
    if name not in manifest["files"]:
        raise DataError(f"expected a file {name} in it")
    entry = manifest["files"][name]
    array: npt.NDArray[Any] = np.load(folder / name, mmap_mode="r")
    _check_same(f"shape of {name}", list(array.shape), entry["shape"])
    _check_same(f"type of {name}", array.dtype.str, entry["dtype"])
    return array


def _check_same(what: str, received: Any, expected: Any) -> None:
    if received != expected:
        raise DataError(f"{what}: expected {expected}, received {received}")


@contextlib.contextmanager
def _as_store_error(folder: Path, kind: str) -> Iterator[None]:
    """Say of what a folder is read with that it is not such a store."""
    try:
        yield
    except (*NPY_ERRORS, IndexError, OSError) as error:
        reason = str(error) if isinstance(error, DataError) else repr(error)
        raise StoreError(
            f"{folder / MANIFEST}: not the manifest of {kind}: {reason}"
        ) from error


def _write_derived(
    folder: Path,
    name: str,
    shape: tuple[int, ...],
    blocks: Iterator[npt.NDArray[np.float32]],
) -> _Manifest:
    _write_blocks(
        folder / _ARRAY, shape, np.dtype(np.float32), _finite(name, blocks)
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
    folder: Path,
    content: Callable[[Path, _Manifest], _T],
    write: Callable[[Path], _Manifest],
) -> _T:
    """The content of `folder`, made by `write` if that is not there."""
    with contextlib.suppress(StoreError):
        return _opened(folder, content)
    with _locked(folder):
        try:  # Another process may have been faster.
            return _opened(folder, content)
        except StoreError as error:
            if folder.exists():
                _LOG.warning("%s; it is built anew", error)
        return content(folder, _publish(folder, write))


def _opened(folder: Path, content: Callable[[Path, _Manifest], _T]) -> _T:
    """The content of `folder`, with the warnings that belong to it."""
    manifest = _verified_manifest(folder)
    result = content(folder, manifest)
    data_warnings.repeat(manifest.get("warnings", ()))
    return result


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the right to make `folder`. It ends with the process, too."""
    with _place_named(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = open(folder.parent / f".{folder.name}.lock", "w")
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOG.info("%s: another process makes it; waiting", folder)
            fcntl.flock(file, fcntl.LOCK_EX)
        _bring_back(folder)
        yield


@contextlib.contextmanager
def _place_named(folder: Path) -> Iterator[None]:
    """Say where a store was to be written, and what could change that."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{folder.parent}: cannot write a store there ({error}); give a "
            "folder that can be created and written (--store_dir, or "
            "--output_dir with --mode=convert)"
        ) from error


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


def _publish(folder: Path, write: Callable[[Path], _Manifest]) -> _Manifest:
    """Let `write` fill a new folder, give it its name, return its manifest."""
    prefix = f".{folder.name}.part-"
    for stale in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(stale, ignore_errors=True)
    with _place_named(folder):
        new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix))
    try:
        manifest = write(new)
        files = {each.name: _file_entry(each) for each in sorted(new.iterdir())}
        manifest = _write_manifest(new, {**manifest, "files": files})
        new.chmod(0o755)
        _replace(folder, new)
        return manifest
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        _bring_back(folder)
        raise


def _write_manifest(folder: Path, manifest: _Manifest) -> _Manifest:
    """Write a manifest with its checksum; return what will be read."""
    plain: _Manifest = json.loads(json.dumps(manifest))
    plain["crc32"] = _checksum(plain)
    with open(folder / MANIFEST, "w", encoding="utf-8") as file:
        json.dump(plain, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    return plain


def _checksum(manifest: _Manifest) -> str:
    """CRC-32 of all that a manifest says but its checksum."""
    rest = {key: manifest[key] for key in manifest if key != "crc32"}
    return f"{zlib.crc32(json.dumps(rest, sort_keys=True).encode()):08x}"


def _file_entry(path: Path) -> _Manifest:
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


def _verified_manifest(folder: Path) -> _Manifest:
    """The manifest, after it and every file were found to be unaltered."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        kind, version = manifest["format"], manifest["version"]
        files = dict(manifest["files"])
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:
        raise StoreError(f"{path}: cannot be read: {error!r}") from error
    if (kind, version) != (FORMAT, VERSION):
        raise StoreError(
            f"{path}: expected format {FORMAT!r}, version {VERSION}. "
            f"Received: {kind!r}, {version!r}"
        )
    if manifest.get("crc32") != _checksum(manifest):
        raise StoreError(f"{path}: was altered after it was written")
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
