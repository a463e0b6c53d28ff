"""Numbered folders of exported models, as TensorFlow Serving expects them.

<base>/1, <base>/2, ...: the highest number is served. Names that are no 64-bit
integer are none to the server, nor here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

LARGEST = 2**63 - 1


@contextlib.contextmanager
def unfinished(base: Path) -> Iterator[Path]:
    """A folder to fill, which `publish` makes a version once it is full.

    Until then its name is no number, so that no server loads it. After an
    error nothing of it is left.

    Raises:
        OSError: If `base` cannot be made or written.
    """
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base, prefix=".part-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def publish(folder: Path) -> int:
    """Make a folder of `unfinished` the next version of its base.

    Returns:
        The version.

    Raises:
        OSError: If it cannot be renamed, or no higher number is left.
    """
    os.chmod(folder, 0o755)  # A server may run as another user.
    while True:
        version = latest(folder.parent) + 1
        _check_number(folder.parent, version)
        target = folder.with_name(str(version))
        try:
            os.rename(folder, target)
        except OSError:
            # Another export was first; a folder that is full stays.
            if not target.exists():
                raise
        else:
            return version


def latest(base: Path) -> int:
    """The highest version under `base`; 0 if there is none."""
    names = os.listdir(base) if base.is_dir() else []
    numbers = [int(name) for name in names if _is_number(name)]
    return max((each for each in numbers if each <= LARGEST), default=0)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _check_number(base: Path, version: int) -> None:
    if version > LARGEST:
        raise OSError(
            f"{base}: holds version {LARGEST}, the highest that TensorFlow "
            "Serving knows; rename it, or export under another name"
        )
