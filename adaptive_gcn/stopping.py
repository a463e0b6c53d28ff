"""Ctrl-C and SIGTERM: a clean stop at the end of an epoch. No TensorFlow."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal ended the run.

    No `Exception`, so that nothing takes it for a failure that it can handle.

    Attributes:
        status: Exit status of the program: 130 after Ctrl-C, 143 after
            SIGTERM.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.status = 128 + number


class StopSignals:
    """What was asked by signal.

    Attributes:
        asked: Number of the signal that asked for a stop, or None.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self._deferring = False

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM raise `Stopped`; main thread only."""
        before = {each: signal.signal(each, self._handle) for each in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Let the first of them be noted only: somebody looks at `asked`."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def _handle(self, number: int, _: Any) -> None:
        if self._deferring and self.asked is None:
            self.asked = number
            with contextlib.suppress(OSError):
                os.write(
                    2, b"stopping at the end of the epoch; again: at once\n"
                )
            return
        raise Stopped(number, "interrupted")
