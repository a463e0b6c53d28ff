"""A reader for the few pickles that the Planetoid files consist of.

A pickle is a program, and unpickling one from the network runs it. This
module never calls `pickle`: it interprets only the opcodes that build
numbers, strings, tuples, lists and dictionaries. A global (a class or
function that the pickle names) is never looked up; the few permitted ones are
read as the name of a kind of object, whose state is checked before an array is
made of it. Hence hostile input can neither run code nor allocate more than a
small multiple of its own size.

Python 2 strings are decoded as latin-1, as `pickle.load(encoding="latin1")`.
"""

from __future__ import annotations

import dataclasses
import pickletools
import re
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.errors import DataError

_PERMITTED = {
    "collections defaultdict": "defaultdict",
    "__builtin__ list": "list",
    "builtins list": "list",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "scipy.sparse.csr csr_matrix": "csr",
    "scipy.sparse._csr csr_matrix": "csr",
    "scipy.sparse._csr csr_array": "csr",
    # How Python 3 writes bytes in protocol 2, without and with content.
    "__builtin__ bytes": "bytes",
    "_codecs encode": "bytes",
}
Loaded: TypeAlias = npt.NDArray[Any] | sparse.csr_array | dict[int, list[int]]

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    "BININT BININT1 BININT2 BINSTRING SHORT_BINSTRING BINUNICODE "
    "SHORT_BINUNICODE BINBYTES SHORT_BINBYTES".split()
)
_IGNORED = frozenset(["PROTO", "FRAME", "STOP"])
_DTYPE = re.compile(r"[biuf][1248]")


class UnsafePickleError(DataError):
    """A pickle asks for something that data does not need."""


class MalformedPickleError(DataError):
    """A pickle is cut off, corrupt or inconsistent in itself."""


@dataclasses.dataclass(eq=False)
class _Global:
    """The name of a class or function; never the thing itself."""

    kind: str


@dataclasses.dataclass(eq=False)
class _Object:
    """What the pickle says of an object: how it is made, state and items."""

    kind: str
    arguments: Any
    state: Any = None
    items: dict[int | str, Any] = dataclasses.field(default_factory=dict)


def loads(data: bytes, source: str) -> Loaded:
    """Read one array, one sparse matrix or one table of neighbours.

    Args:
        data: A pickle of protocol 2 to 4, of a numeric or boolean
            `numpy.ndarray`, a SciPy CSR matrix, or a (default) dictionary from
            integers to lists of integers.
        source: Path of the file, for messages.

    Raises:
        UnsafePickleError: If the pickle names any other class or function, or
            uses an opcode that no such pickle contains.
        MalformedPickleError: If it is corrupt, or anything but the above.
    """
    try:
        return _decode(_Interpreter().run(data), len(data))
    except UnsafePickleError as error:
        raise UnsafePickleError(f"{source}: {error}") from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise MalformedPickleError(
            f"{source}: expected a pickled array, CSR matrix or dictionary "
            f"of lists. Received: {len(data)} bytes with this fault: {error}. "
            "Get the file again"
        ) from error


class _Interpreter:
    """The stack machine of the pickle format, reduced to inert values."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._outer: list[list[Any]] = []  # Stacks below the open marks.
        self._memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            self._step(opcode.name, argument)
        (result,) = self._stack
        return result

    def _step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[argument])
        elif name not in _IGNORED:
            operation = getattr(self, f"_op_{name.lower()}", None)
            if operation is None:
                raise UnsafePickleError(
                    f"refused opcode {name}: no pickle of an array (protocol "
                    "2 to 4) contains it"
                )
            operation(argument)

    def _op_memoize(self, _: None) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _op_mark(self, _: None) -> None:
        self._outer.append(self._stack)
        self._stack = []

    def _pop_mark(self) -> list[Any]:
        values = self._stack
        self._stack = self._outer.pop()
        return values

    def _op_empty_tuple(self, _: None) -> None:
        self._stack.append(())

    def _op_empty_list(self, _: None) -> None:
        self._stack.append([])

    def _op_empty_dict(self, _: None) -> None:
        self._stack.append({})

    def _op_tuple(self, _: None) -> None:
        values = self._pop_mark()
        self._stack.append(tuple(values))

    def _op_tuple1(self, _: None) -> None:
        self._stack.append((self._stack.pop(),))

    def _op_tuple2(self, _: None) -> None:
        second, first = self._stack.pop(), self._stack.pop()
        self._stack.append((first, second))

    def _op_tuple3(self, _: None) -> None:
        third, second = self._stack.pop(), self._stack.pop()
        self._stack.append((self._stack.pop(), second, third))

    def _op_append(self, _: None) -> None:
        self._extend([self._stack.pop()])

    def _op_appends(self, _: None) -> None:
        self._extend(self._pop_mark())

    def _extend(self, values: list[Any]) -> None:
        _of_type(self._stack[-1], list).extend(values)

    def _op_setitem(self, _: None) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items([key, value])

    def _op_setitems(self, _: None) -> None:
        self._set_items(self._pop_mark())

    def _set_items(self, values: list[Any]) -> None:
        target = self._stack[-1]
        items = target.items if isinstance(target, _Object) else target
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Hashing a hostile nest of tuples may overflow the C stack.
            _of_type(items, dict)[_of_type(key, int, str)] = value

    def _op_global(self, name: str) -> None:
        if name not in _PERMITTED:
            raise UnsafePickleError(
                f"refused to load {name.replace(' ', '.')!r}: expected only "
                "arrays, CSR matrices and dictionaries of lists, pickled with "
                "protocol 2 to 4. Nothing of the file was executed; do not "
                "open it by other means unless you trust its source"
            )
        self._stack.append(_Global(_PERMITTED[name]))

    def _op_stack_global(self, _: None) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._op_global(f"{_of_type(module, str)} {_of_type(name, str)}")

    def _op_reduce(self, _: None) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        kind = _of_type(function, _Global).kind
        self._stack.append(_Object(kind, _of_type(arguments, tuple)))

    _op_newobj = _op_reduce

    def _op_build(self, _: None) -> None:
        state = self._stack.pop()
        _of_type(self._stack[-1], _Object).state = state


def _of_type(value: Any, *types: type) -> Any:
    """The value, if its type is exactly one of `types`."""
    if type(value) not in types:
        raise TypeError(
            f"expected {types[0].__name__}, received {type(value).__name__}"
        )
    return value


def _decode(value: Any, n_bytes: int) -> Loaded:
    kind = value.kind if isinstance(value, _Object) else None
    if kind == "array":
        return _decode_array(value)
    if kind == "csr":
        return _decode_csr(value)
    items = value.items if kind == "defaultdict" else value
    return _decode_lists(_of_type(items, dict), n_bytes)


def _decode_lists(items: dict[Any, Any], n_bytes: int) -> dict[int, list[int]]:
    n_entries = 0
    for key, values in items.items():
        _of_type(key, int)
        n_entries += len(_of_type(values, list))
        if n_entries > n_bytes:  # Only a list used many times can do that.
            raise ValueError("more entries than bytes")
        for value in values:
            _of_type(value, int)
    return items


def _decode_array(value: Any) -> npt.NDArray[Any]:
    _, shape, dtype, fortran_order, raw = _state(value, "array", tuple)
    content, element = _decode_bytes(raw), _decode_dtype(dtype)
    # `frombuffer` takes no empty buffer.
    array = np.frombuffer(content, element) if content else np.empty(0, element)
    sizes = [_of_type(size, int) for size in _of_type(shape, tuple)]
    if min(sizes, default=0) < 0:
        raise ValueError(f"negative size in shape {sizes}")
    array = array.reshape(sizes, order="F" if fortran_order else "C")
    return array.astype(array.dtype.newbyteorder("="))


def _decode_bytes(value: Any) -> bytes:
    if isinstance(value, _Object) and value.kind == "bytes":
        value = value.arguments[0] if value.arguments else b""
    if isinstance(value, bytes):
        return value
    return _of_type(value, str).encode("latin1")  # type: ignore[no-any-return]


def _decode_dtype(value: Any) -> np.dtype[Any]:
    state = _state(value, "dtype", tuple)
    code = _decode_bytes(value.arguments[0]).decode("latin1")
    order = _decode_bytes(state[1]).decode("latin1")
    if not _DTYPE.fullmatch(code) or order not in ("<", ">", "|", "="):
        raise ValueError(
            f"element type {(order + code)[:20]!r} is not a number or boolean"
        )
    return np.dtype(order + code)


def _decode_csr(value: Any) -> sparse.csr_array:
    state = _state(value, "csr", dict)
    parts = [_decode_array(state[key]) for key in ("data", "indices", "indptr")]
    if any(part.dtype.kind not in "iu" for part in parts[1:]):
        raise ValueError("the indices of the matrix are not integers")
    shape = [_of_type(size, int) for size in _of_type(state["_shape"], tuple)]
    if len(shape) != 2:
        raise ValueError(f"a matrix of shape {shape}")
    matrix = sparse.csr_array(tuple(parts), shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix


def _state(value: Any, kind: str, type_: type) -> Any:
    if _of_type(value, _Object).kind != kind:
        raise TypeError(f"expected {kind}, received {value.kind}")
    return _of_type(value.state, type_)
