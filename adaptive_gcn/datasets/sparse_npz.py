"""Arrays and sparse matrices in .npz archives of others, read safely.

A matrix that `scipy.sparse.save_npz` wrote is read part by part, so that the
114 million entries of the larger Reddit are never there twice.
"""

from __future__ import annotations

import contextlib
import logging
import lzma
import pathlib
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.datasets.raw_files import ADVICE, NPY_ERRORS, looks_like
from adaptive_gcn.errors import DataError, GraphError

_LOG = logging.getLogger(__name__)

_BLOCK = 2**22
_FORMATS = ("coo", "csr", "csc")
_DAMAGE = (
    *NPY_ERRORS,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,  # An encrypted or exotic archive.
    OSError,  # A member that is said to begin before the file.
)

_Ends = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


class Parts:
    """The arrays of an archive; what is wrong with one is a `DataError`."""

    def __init__(self, path: pathlib.Path, archive: Any) -> None:
        self.path = path
        self._archive = archive

    def __contains__(self, key: str) -> bool:
        return key in self._archive

    def __iter__(self) -> Iterator[str]:
        return iter(self._archive)

    def holds_objects(self, key: str) -> bool:
        """Whether an array could only be had by unpickling it."""
        try:
            with self._archive.zip.open(f"{key}.npy") as file:
                version = np.lib.format.read_magic(file)
                read = getattr(
                    np.lib.format, f"read_array_header_{version[0]}_0"
                )
                return bool(read(file)[2].hasobject)
        except (*_DAMAGE, AttributeError):
            return False  # `raw` says what is wrong.

    def raw(self, key: str) -> npt.NDArray[Any]:
        """An array of any shape and type but objects."""
        if key not in self:
            raise DataError(
                f"{self.path}: expected an array {key!r}. Received: "
                f"{', '.join(self._archive)}"
            )
        try:
            return np.asarray(self._archive[key])
        except _DAMAGE as error:
            raise DataError(
                f"{self.path}: array {key!r} cannot be read: {error}; {ADVICE}"
            ) from error

    def get(
        self, key: str, kinds: str = "iu", n_dims: int = 1
    ) -> npt.NDArray[Any]:
        """An array with so many dimensions and a type of these kinds."""
        array = self.raw(key)
        if array.ndim != n_dims or array.dtype.kind not in kinds:
            raise DataError(
                f"{self.path}: array {key!r}: expected {n_dims} dimension(s) "
                f"and a type of kind {kinds!r}. Received: shape {array.shape}, "
                f"{array.dtype}"
            )
        return array


@contextlib.contextmanager
def open_npz(path: pathlib.Path) -> Iterator[Parts]:
    """Open an archive of arrays; nothing is ever unpickled.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it is no whole archive.
    """
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            raise DataError(
                f"{path}: expected a whole .npz archive. Received: "
                f"{looks_like(file.read(64))}; {ADVICE}"
            )
    try:
        archive = np.load(path, allow_pickle=False)
    except _DAMAGE as error:
        raise DataError(f"{path}: {error}; {ADVICE}") from error
    with archive:
        yield Parts(path, archive)


def read_entries(path: pathlib.Path) -> tuple[int, _Ends]:
    """The places of the non-zero entries of a square sparse matrix.

    Positive weights count as 1 and explicit zeros are left out, both with a
    notice.

    Args:
        path: A file of `scipy.sparse.save_npz`, COO, CSR or CSC.

    Returns:
        The number of rows; and the rows and columns of the entries, each
        [n_entries] int32.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it is not such a file.
        GraphError: If a weight is negative or not finite.
    """
    with open_npz(path) as parts:
        n_nodes = _n_rows(parts)
        kept = _kept(parts.get("data", "fiub"), path)
        rows, columns = _places(parts, n_nodes)
        if not len(rows) == len(columns) == len(kept):
            raise DataError(
                f"{path}: {len(kept)} values, {len(rows)} rows and "
                f"{len(columns)} columns; they do not belong together"
            )
    if kept.all():
        return n_nodes, (rows, columns)
    return n_nodes, (rows[kept], columns[kept])


def read_matrix(parts: Parts, prefix: str = "") -> sparse.coo_array:
    """A sparse matrix of any shape and its values, with zeros it stores.

    Args:
        parts: An archive with `data`, `shape` and the indices as
            `scipy.sparse.save_npz` writes them; without `format` they are
            those of CSR, and without `data` all values are 1.
        prefix: How the names of these arrays begin.

    Raises:
        DataError: If they make up no matrix.
    """
    try:
        shape = tuple(parts.get(f"{prefix}shape").tolist())
        form = _format(parts, prefix) if f"{prefix}format" in parts else "csr"
        keys = ("row", "col") if form == "coo" else ("indices", "indptr")
        # SciPy wants signed indices; others save small ones without sign.
        ends = [parts.get(f"{prefix}{each}").astype(np.int64) for each in keys]
        data = np.ones(len(ends[0]), np.float32)
        if f"{prefix}data" in parts:
            data = parts.get(f"{prefix}data", "fiub")
        if form == "coo":
            return sparse.coo_array((data, tuple(ends)), shape)
        kind = sparse.csr_array if form == "csr" else sparse.csc_array
        matrix = kind((data, *ends), shape)
        matrix.check_format(full_check=True)
        return matrix.tocoo()
    except DataError:
        raise
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{parts.path}: {prefix}* are not a sparse matrix: {error}"
        ) from error


def _n_rows(parts: Parts) -> int:
    shape = parts.get("shape").tolist()
    if len(shape) != 2 or shape[0] != shape[1] or not 0 < shape[0] < 2**31:
        raise DataError(
            f"{parts.path}: expected the square adjacency matrix of a graph. "
            f"Received: shape {shape}"
        )
    return int(shape[0])


def _format(parts: Parts, prefix: str = "") -> str:
    value = parts.get(f"{prefix}format", "SU", n_dims=0).item()
    name = value.decode("latin1") if isinstance(value, bytes) else str(value)
    if name not in _FORMATS:
        raise DataError(
            f"{parts.path}: expected a matrix in one of the formats "
            f"{_FORMATS}. Received: {name[:20]!r}"
        )
    return name


def _places(parts: Parts, n_nodes: int) -> _Ends:
    name = _format(parts)
    if name == "coo":
        return _indices(parts, "row", n_nodes), _indices(parts, "col", n_nodes)
    inner = _indices(parts, "indices", n_nodes)
    indptr = parts.get("indptr").astype(np.int64)
    counts = np.diff(indptr)
    if (
        len(counts) != n_nodes
        or counts.min() < 0
        or (indptr[0], indptr[-1]) != (0, len(inner))
    ):
        raise DataError(
            f"{parts.path}: 'indptr' does not divide {len(inner)} entries "
            f"among {n_nodes} rows"
        )
    outer = np.repeat(np.arange(n_nodes, dtype=np.int32), counts)
    return (outer, inner) if name == "csr" else (inner, outer)


def _indices(parts: Parts, key: str, n_nodes: int) -> npt.NDArray[np.int32]:
    indices = parts.get(key)
    if len(indices) and not 0 <= indices.min() <= indices.max() < n_nodes:
        outside = np.flatnonzero((indices < 0) | (indices >= n_nodes))
        raise DataError(
            f"{parts.path}: {outside.size} values of {key!r} lie outside the "
            f"nodes 0..{n_nodes - 1}; the first is {key}[{outside[0]}] = "
            f"{indices[outside[0]]}"
        )
    return indices.astype(np.int32, copy=False)


def _kept(
    weights: npt.NDArray[Any], path: pathlib.Path
) -> npt.NDArray[np.bool_]:
    """[n_entries] Whether an entry is not zero."""
    kept = np.empty(len(weights), np.bool_)
    n_other = 0
    for start in range(0, len(weights), _BLOCK):
        block = weights[start : start + _BLOCK]
        bad = np.flatnonzero(~(np.isfinite(block) & (block >= 0)))
        if bad.size:
            raise GraphError(
                f"{path}: expected finite weights >= 0. Received: data"
                f"[{start + bad[0]}] = {block[bad[0]]}"
            )
        kept[start : start + _BLOCK] = block > 0
        n_other += int(np.count_nonzero((block > 0) & (block != 1)))
    _log_weights(path, int(np.count_nonzero(~kept)), n_other)
    return kept


def _log_weights(path: pathlib.Path, n_zero: int, n_other: int) -> None:
    if n_zero:
        _LOG.warning("%s: %d entries are 0 and left out", path, n_zero)
    if n_other:
        _LOG.warning(
            "%s: %d weights are not 1; they count as 1, as graphs are "
            "unweighted here",
            path,
            n_other,
        )
