"""One file with JSON values and arrays, written so that it is whole or absent.

The first line names the format, the second holds size and CRC-32 of all that
follows. Then come a line of JSON, with name, type and shape of each array, and
the arrays' bytes one after another. Nothing is read before the checksum fits,
and nothing can ask for more memory than the file has bytes. No TensorFlow here.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn import run_folder
from adaptive_gcn.run_folder import RunFolderError

_MAGIC = b"adaptive_gcn checkpoint 1"
_TYPES = ("float16", "float32", "float64", "int32", "int64", "uint32", "uint64")
_LONGEST_LINE = 200  # Of the line with size and checksum.

Arrays = dict[str, npt.NDArray[Any]]


class CheckpointError(RunFolderError):
    """A checkpoint cannot be read, or belongs to another run."""


def write(path: Path, values: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint in place of the one at `path`, all or nothing.

    Args:
        path: The file.
        values: JSON values.
        arrays: Arrays of numbers, by name.

    Raises:
        RunFolderError: If it cannot be written; what was at `path` is kept.
    """
    try:
        run_folder.write_parts(path, _encoded(values, arrays))
    except OSError as error:
        raise RunFolderError(
            f"{path}: the checkpoint cannot be written ({error}); the one "
            "before it, if any, is kept: make room, or the folder writable, "
            "and go on with --resume"
        ) from error


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The values and arrays of a checkpoint; the arrays are read-only.

    Raises:
        CheckpointError: If this is not a whole file that `write` made.
    """
    try:
        return _decoded(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: not a whole checkpoint of this version ({error}); start "
            "anew with --overwrite"
        ) from error


def _encoded(values: Mapping[str, Any], arrays: Arrays) -> list[bytes]:
    kept = {name: np.ascontiguousarray(each) for name, each in arrays.items()}
    layout = {
        # `ascontiguousarray` makes a vector of a scalar.
        name: [kept[name].dtype.name, list(np.shape(arrays[name]))]
        for name in kept
    }
    head = {"values": dict(values), "arrays": layout}
    parts = [json.dumps(head, allow_nan=False).encode() + b"\n"]
    parts += [each.tobytes() for each in kept.values()]
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    check = {"bytes": sum(map(len, parts)), "crc32": crc}
    return [_MAGIC, b"\n", json.dumps(check).encode(), b"\n", *parts]


def _decoded(content: bytes) -> tuple[dict[str, Any], Arrays]:
    magic, _, rest = content.partition(b"\n")
    if magic != _MAGIC:
        raise ValueError(f"it does not begin with {_MAGIC.decode()!r}")
    end = rest.find(b"\n", 0, _LONGEST_LINE)
    check = json.loads(rest[: max(end, 0)])
    body = memoryview(rest)[end + 1 :]
    found = {"bytes": len(body), "crc32": zlib.crc32(body)}
    if check != found:
        raise ValueError(f"expected {check}, found {found}")
    end = rest.index(b"\n", end + 1) - end - 1
    head = json.loads(bytes(body[:end]))
    arrays = _arrays(head["arrays"], body[end + 1 :])
    return dict(head["values"]), arrays


def _arrays(layout: dict[str, Any], content: memoryview) -> Arrays:
    arrays, start = {}, 0
    for name, (kind, shape) in layout.items():
        if kind not in _TYPES or not all(
            type(size) is int and size >= 0 for size in shape
        ):
            raise ValueError(f"array {name}: type {kind}, shape {shape}")
        count = math.prod(shape)
        stop = start + count * np.dtype(kind).itemsize
        if stop > len(content):
            raise ValueError(f"array {name} ends behind the file")
        arrays[name] = np.frombuffer(content[start:stop], kind).reshape(shape)
        start = stop
    if start != len(content):
        raise ValueError(f"{len(content) - start} bytes follow the arrays")
    return arrays
