"""Matrices in .npy files, read as float32 and written with little memory.

Nothing is ever unpickled. A float32 file is mapped into memory; everything
else is converted block by block, so that no second copy is made.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.datasets.raw_files import (
    ADVICE,
    NPY_ERRORS,
    looks_like,
    open_raw,
    without_header_warnings,
)
from adaptive_gcn.errors import DataError

_BLOCK_BYTES = 2**22
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclasses.dataclass(frozen=True)
class NpyHeader:
    """What a .npy file says of the matrix in it.

    Attributes:
        path: The file, .npy or .npy.xz.
        shape: Number of rows and of columns.
        dtype: A number or boolean type.
        fortran_order: Whether the file goes down the columns.
        offset: Where the values begin, in bytes, after decompression.
    """

    path: pathlib.Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    fortran_order: bool
    offset: int

    @property
    def n_bytes(self) -> int:
        """Size of the values in the file."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize


def read_header(path: pathlib.Path) -> NpyHeader:
    """Read the first bytes of a .npy or .npy.xz file.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it does not begin a matrix of numbers.
    """
    with open_raw(path) as file:
        try:
            version = np.lib.format.read_magic(file)
            with without_header_warnings():
                shape, fortran_order, dtype = _HEADER_READERS[version](file)
        except NPY_ERRORS as error:
            file.seek(0)
            raise DataError(
                f"{path}: expected a .npy file. Received: "
                f"{looks_like(file.read(64))} ({error}); {ADVICE}"
            ) from error
        offset = file.tell()
    matrix = len(shape) == 2 and shape[0] >= 0 and shape[1] > 0
    if not matrix or dtype.kind not in "fiub":
        raise DataError(
            f"{path}: expected a matrix of numbers [n_nodes, n_features]. "
            f"Received: shape {shape}, dtype {dtype}"
        )
    size = (shape[0], shape[1])
    return NpyHeader(path, size, dtype, fortran_order, offset)


def read_float32(header: NpyHeader) -> npt.NDArray[np.float32]:
    """The matrix, [n_rows, n_columns] float32.

    Returns:
        A read-only memory map if the file is float32, row by row and not
        compressed; else an array.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it holds fewer or more bytes than its header says.
    """
    plain = header.path.suffix != ".xz"
    if plain:
        _check_size(header, header.path.stat().st_size - header.offset)
    mappable = header.dtype == np.float32 and not header.fortran_order
    if plain and mappable and header.n_bytes:
        return np.memmap(
            header.path, np.float32, "r", header.offset, header.shape
        )
    result = np.empty(header.shape, np.float32)
    with open_raw(header.path) as file:
        file.seek(header.offset)
        _fill(result.T if header.fortran_order else result, file, header)
    return result


def _fill(
    lines: npt.NDArray[np.float32], file: IO[bytes], header: NpyHeader
) -> None:
    """Fill the lines, which follow each other in the file."""
    line_bytes = lines.shape[1] * header.dtype.itemsize
    step = max(1, _BLOCK_BYTES // max(1, line_bytes))
    for start in range(0, len(lines), step):
        block = lines[start : start + step]
        content = _read_up_to(file, len(block) * line_bytes)
        if len(content) < len(block) * line_bytes:
            _check_size(header, start * line_bytes + len(content))
        values = np.frombuffer(content, header.dtype).reshape(block.shape)
        with np.errstate(over="ignore"):  # `Graph` refuses infinite values.
            block[...] = values
    _check_size(header, header.n_bytes + len(_read_up_to(file, 1)))


def _read_up_to(file: Any, n_bytes: int) -> bytearray:
    """So many bytes, or what there is before the file ends or is cut off."""
    content = bytearray()
    try:
        while len(content) < n_bytes:
            part = file.read1(n_bytes - len(content))
            if not part:
                break
            content += part
    except EOFError:
        pass
    return content


def _check_size(header: NpyHeader, received: int) -> None:
    if received != header.n_bytes:
        size = "at least " if received > header.n_bytes else ""
        raise DataError(
            f"{header.path}: expected {header.n_bytes} bytes of values for "
            f"shape {header.shape}, {header.dtype}. Received: {size}{received} "
            f"bytes; {ADVICE}"
        )


def write_blocks(
    file: IO[bytes],
    shape: tuple[int, ...],
    dtype: npt.DTypeLike,
    blocks: Iterable[npt.NDArray[Any]],
) -> int:
    """Write a .npy file from blocks of rows; return how many rows they had."""
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    n_rows = 0
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype).data)
        n_rows += len(block)
    return n_rows
