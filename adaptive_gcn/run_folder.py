"""The folder of a run: claiming it, and writing records into it safely.

A record is written to a temporary name and renamed, so that a reader sees
all of it or nothing. No TensorFlow here.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import logging
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import adaptive_gcn

RESULT = "result.json"
HISTORY = "history.csv"
CONFIG = "config.json"
WEIGHTS = "best.weights.h5"
EVALUATION = "evaluation.json"
PREDICTIONS = "predictions.csv"
CHECKPOINT = "checkpoint"
TENSORBOARD = "tensorboard"

_RESULTS = (
    CHECKPOINT,
    RESULT,
    HISTORY,
    CONFIG,
    WEIGHTS,
    EVALUATION,
    PREDICTIONS,
)
_PACKAGES = ("tensorflow", "keras", "numpy", "scipy", "numba")


_LOG = logging.getLogger(__name__)


class RunFolderError(OSError):
    """The output folder cannot be used for this run."""


def claim(
    path: str,
    overwrite: bool,
    default_name: str = "run",
    resume: bool = False,
) -> Path:
    """Make the folder of a run ready, before any other work.

    Args:
        path: The folder; empty for a new `runs/<default_name>` (with -2, -3
            and so on where that exists).
        overwrite: Whether results already there may be replaced.
        default_name: Name of the new folder if `path` is empty.
        resume: Whether what is there is to be gone on with.

    Returns:
        The folder, which exists and can be written to.

    Raises:
        RunFolderError: If it cannot be made or written, or holds results and
            neither `overwrite` nor `resume` is true.
    """
    make_writable(Path(path or "runs"), f"--output_dir={path or 'runs'}")
    folder = Path(path) if path else _make_new(default_name)
    found = [name for name in _RESULTS if (folder / name).exists()]
    if found and not overwrite and not resume:
        raise RunFolderError(
            f"--output_dir={folder}: holds an earlier run "
            f"({', '.join(found)}); give another folder, --overwrite to "
            "replace it, or --resume to go on with it"
        )
    return folder


def make_writable(folder: Path, named: str) -> None:
    """Make a folder if it is missing, and try to write to it.

    Args:
        folder: The folder; its parents are made too.
        named: The flag and its value, for the message.

    Raises:
        RunFolderError: If it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RunFolderError(
            f"{named}: cannot write there ({error}); give a folder that can "
            "be created and written"
        ) from error


@contextlib.contextmanager
def locked(folder: Path, named: str = "") -> Iterator[None]:
    """Hold the folder against other runs. It ends with the process, too.

    Args:
        folder: The folder, which exists.
        named: The flag and its value, for the message; else --output_dir.

    Raises:
        RunFolderError: If another run holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder, named or f"--output_dir={folder}")
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, named: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunFolderError(
            f"{named}: another run is writing there; wait for "
            "its end, or give another folder"
        ) from error
    except OSError as error:  # Some network file systems have no such locks.
        _LOG.warning("%s: cannot be locked (%s); use it once", folder, error)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed run had not finished writing."""
    for name in _RESULTS:
        for temporary in (f".{name}.tmp", f"tmp-{name}"):
            (folder / temporary).unlink(missing_ok=True)


def remove_results(folder: Path) -> None:
    """Remove the records of an earlier run, once the new one can start."""
    for name in _RESULTS:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)


def _make_new(name: str) -> Path:
    """A folder under runs/ that nobody had before."""
    for number in itertools.count(1):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError  # Not reached: the count has no end.


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write a JSON object to `path`, all or nothing."""
    write_text(path, json.dumps(record, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file, all or nothing."""
    write_parts(path, [text.encode()])


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file, all or nothing, so that it outlives a loss of power.

    Raises:
        OSError: If it cannot be written; what was at `path` is kept.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object written by `write_json`.

    Raises:
        RunFolderError: If the file is missing or is not a JSON object.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(
            f"{path}: cannot be read ({error}); expected the folder of a "
            "finished run"
        ) from error
    if not isinstance(record, dict):
        raise RunFolderError(f"{path}: expected a JSON object")
    return record


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    found = {
        "python": platform.python_version(),
        "adaptive-gcn": adaptive_gcn.__version__,
    }
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """Processor, usable cores and memory; nothing that names the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
