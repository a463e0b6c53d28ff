"""Compiling loops with numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile, without the GIL; the machine code is kept on disk if it can."""
    try:
        compiled = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Neither the package nor a user's cache is writable.
        compiled = numba.njit(nogil=True)(function)
    return cast(_Function, compiled)
