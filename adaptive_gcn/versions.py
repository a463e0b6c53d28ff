"""Numbered folders of exported models, as TensorFlow Serving expects them.

<base>/1, <base>/2, ...: the highest number is served.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def new_version(base: Path) -> Iterator[Path]:
    """A folder to fill, which becomes the next version once it is full.

    Until then its name is no number, so that no server loads it. After an
    error nothing of it is left.

    Yields:
        The folder to fill; afterwards `latest(base)` is its new name.

    Raises:
        OSError: If `base` cannot be made or written.
    """
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base, prefix=".part-"))
    try:
        yield folder
        os.chmod(folder, 0o755)  # A server may run as another user.
        _rename_to_next(folder, base)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def latest(base: Path) -> int:
    """The highest version under `base`; 0 if there is none."""
    names = os.listdir(base) if base.is_dir() else []
    return max((int(name) for name in names if _is_number(name)), default=0)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _rename_to_next(folder: Path, base: Path) -> None:
    while True:
        target = base / str(latest(base) + 1)
        try:
            os.rename(folder, target)
        except OSError:
            # Another export was first; a folder that is full stays.
            if not target.exists():
                raise
        else:
            return
