"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def new_file(path: pathlib.Path) -> Iterator[IO[bytes]]:
    """A file that gets its name when all is written."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(descriptor, "wb", buffering=2**20) as file:
            yield file
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
