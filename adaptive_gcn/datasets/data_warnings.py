"""Warnings about data, kept to be given again each time the data is used.

Readers log what they find doubtful. Where their result is stored, nobody
would read it again and hear of that: so the store keeps the texts.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator

_LOG = logging.getLogger(__name__)

_PACKAGE = __name__.partition(".")[0]
_STORE = "adaptive_gcn.datasets.store"  # Warns of files, not of the data.


@contextlib.contextmanager
def kept() -> Iterator[list[str]]:
    """The warnings that this thread logs meanwhile, in a list that grows.

    They are logged as ever. What `logging` is set to leave out is not kept.
    """
    keeper = _Keeper()
    logger = logging.getLogger(_PACKAGE)
    logger.addHandler(keeper)
    try:
        yield keeper.texts
    finally:
        logger.removeHandler(keeper)


def repeat(texts: Iterable[str]) -> None:
    """Log kept warnings again."""
    for text in texts:
        _LOG.warning("%s", text)


class _Keeper(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread and record.name != _STORE:
            self.texts.append(record.getMessage())
        if logging.lastResort and not logging.getLogger().handlers:
            logging.lastResort.handle(record)  # As if this were no handler.
