"""Compiling loops with numba, and what its loops cannot say themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile, without the GIL; the machine code is kept on disk if it can."""
    try:
        compiled = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Neither the package nor a user's cache is writable.
        compiled = numba.njit(nogil=True)(function)
    return cast(_Function, compiled)


def _prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Ask the processor for `array[place]` ahead of its use."""
    del typing_context

    def generate(
        context: Any, builder: Any, signature: Any, values: Any
    ) -> Any:
        make_array = context.make_array(signature.args[0])
        start = make_array(context, builder, values[0]).data
        address = builder.bitcast(
            builder.gep(start, [values[1]]), cgutils.voidptr_t
        )
        flag = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch",
            (cgutils.voidptr_t,),
            ir.FunctionType(
                ir.VoidType(), (cgutils.voidptr_t, flag, flag, flag)
            ),
        )
        # To read, into all caches, data.
        builder.call(function, [address, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


# Called in a kernel as prefetch(array, place).
prefetch = cast(Callable[[npt.NDArray[Any], int], None], intrinsic(_prefetch))
