"""Files that others wrote: found plain or compressed, opened, judged.

Every file `x` may be there as `x.xz` instead.
"""

from __future__ import annotations

import contextlib
import lzma
import pathlib
import tokenize
import warnings
from collections.abc import Iterator
from typing import IO, Any, Literal

import numpy as np

from adaptive_gcn.errors import DataError

ADVICE = "get the file again from its source"

# What NumPy raises when it reads a damaged .npy file, or a pickled one.
NPY_ERRORS = (
    ValueError,
    KeyError,
    TypeError,
    SyntaxError,
    EOFError,
    OverflowError,
    tokenize.TokenError,
)
# How NumPy's complaints of arrays of objects begin.
_OBJECTS = ("Object arrays", "Array can't be memory-mapped: Python objects")
_MAGIC = {
    b"\x1f\x8b": "a file packed by gzip (unpack it)",
    b"\xfd7zXZ": "a file packed by xz (unpack it)",
    b"BZh91AY": "a file packed by bzip2 (unpack it)",
    b"\x28\xb5\x2f\xfd": "a file packed by zstd (unpack it)",
    b"PK\x03\x04": "a zip archive, as of a spreadsheet",
    b"PAR1": "a Parquet file",
    b"\x93NUMPY": "a .npy file",
    b"\x89HDF": "an HDF5 file",
    b"\xff\xfe": "text in UTF-16 (save it as UTF-8)",
    b"\xfe\xff": "text in UTF-16 (save it as UTF-8)",
}


def find(path: pathlib.Path) -> pathlib.Path | None:
    """The file itself, else its compressed copy, else None."""
    return next((each for each in forms_of(path) if each.is_file()), None)


def forms_of(path: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The names of the file itself and of its compressed copy."""
    return path, path.with_name(f"{path.name}.xz")


@contextlib.contextmanager
def open_raw(path: pathlib.Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed if its name ends in ".xz".

    Raises:
        OSError: If the file cannot be opened or read.
        DataError: If a compressed file is damaged or cut off.
    """
    opener = lzma.open if path.suffix == ".xz" else open
    try:
        with opener(path, "rb") as file:
            yield file
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(
            f"{path}: expected a whole .xz file. Received: {error}; {ADVICE}"
        ) from error


@contextlib.contextmanager
def without_header_warnings() -> Iterator[None]:
    """Read headers of .npy files of Python 2 without NumPy's advice."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Reading `.npy`", UserWarning)
        yield


def load_npy(path: pathlib.Path, mmap_mode: Literal["r"] | None = None) -> Any:
    """The array in a .npy file; nothing is unpickled.

    Raises:
        OSError: If the file cannot be opened.
        DataError: If it is damaged, or pickled.
    """
    with path.open("rb") as file:
        head = file.read(64)
    if not head.startswith(np.lib.format.MAGIC_PREFIX):  # It may be a .npz.
        raise DataError(
            f"{path}: cannot be read: expected a .npy file. Received: "
            f"{looks_like(head)}; {ADVICE}"
        )
    try:
        with without_header_warnings():
            return np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except NPY_ERRORS as error:
        if str(error).startswith(_OBJECTS):
            raise DataError(
                f"{path}: expected numbers or texts. Received: Python objects, "
                "which are not unpickled; save the array with a type of its "
                "own, as by array.astype(str)"
            ) from error
        raise DataError(f"{path}: cannot be read: {error}; {ADVICE}") from error


def known_content(head: bytes) -> str | None:
    """What a file is by its first bytes, if these tell."""
    found = [text for magic, text in _MAGIC.items() if head.startswith(magic)]
    return found[0] if found else None


def looks_like(head: bytes) -> str:
    """What a file seems to be that is not what its name says."""
    if not head.strip():
        return "an empty file"
    known = known_content(head)
    if known:
        return known
    if head.startswith(b"version https://git-lfs"):
        return "a git-lfs pointer (`git lfs pull` gets the content)"
    if head.lstrip()[:1] == b"<":
        return "what looks like a web page"
    return f"a file that begins with {head[:20]!r}"
