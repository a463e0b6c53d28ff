"""Graphs in the node-link JSON of networkx, read as a stream.

The file of Reddit is a gigabyte. It goes through once, token by token, and
only numbers are kept: a link costs 16 bytes.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

import ijson
import numpy as np
import numpy.typing as npt

from adaptive_gcn.datasets.raw_files import ADVICE, looks_like, open_raw
from adaptive_gcn.errors import DataError

_Value = TypeVar("_Value")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEAD_BYTES = 4096
_PIECE = 1024
_MOST = 2**63 - 1
_LINK_KEYS = ("links", "edges")
_UNMARKED = -1
_STARTS = ("start_map", "start_array")

_Events = Iterator[tuple[str, Any]]


class FormatError(ValueError):
    """What is wrong in a JSON file, without the name of the file."""


@dataclasses.dataclass(frozen=True)
class Odd:
    """A link end that is neither an integer nor a string, as text."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Nodes:
    """The node list.

    Attributes:
        keys: [n_nodes] ids as text, distinct: 10 and "10" are the same.
        all_strings: Whether all ids are strings in the file.
        test: [n_nodes] int8, the mark "test": 1, 0 or -1 for none.
        val: [n_nodes] int8, the mark "val", likewise.
    """

    keys: list[str]
    all_strings: bool
    test: npt.NDArray[np.int8]
    val: npt.NDArray[np.int8]


@dataclasses.dataclass(frozen=True)
class Links:
    """The link list; an end v >= 0 is the integer v of the file.

    Attributes:
        key: What the file calls it, "links" or "edges".
        sources: [n_links] int64.
        targets: [n_links] int64.
        others: The ends that are not such integers; the end v < 0 is
            `others[-1 - v]`: a string, an integer or `Odd`.
        weighted: Whether a link has a weight, which is not read.
    """

    key: str
    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    others: tuple[str | int | Odd, ...]
    weighted: bool = False

    def end(self, value: int) -> str:
        """How the file writes an end."""
        if value >= 0:
            return str(value)
        other = self.others[-1 - value]
        return json.dumps(other) if isinstance(other, str) else str(other)


def read_node_link(
    path: pathlib.Path, check_nodes: Callable[[Nodes], None]
) -> tuple[Nodes, Links, bool]:
    """Read the nodes, the links and whether the graph is directed.

    Args:
        path: The file, .json or .json.xz.
        check_nodes: Called when the node list is read, which usually precedes
            the links.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it is not the JSON of one graph.
    """
    with _open_json(path) as reader:
        found = _read_graph(ijson.basic_parse(reader), check_nodes)
    try:
        return _complete(found)
    except FormatError as error:
        raise DataError(f"{path}: {error}") from error


def read_map(
    path: pathlib.Path, convert: Callable[[Any], _Value]
) -> dict[str, _Value]:
    """Read a JSON object whose values `convert` checks and turns over.

    Args:
        path: The file, .json or .json.xz.
        convert: Raises `FormatError` for a value that it does not accept.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it is not such an object, or has a key twice.
    """
    found: dict[str, _Value] = {}
    with _open_json(path) as reader:
        for key, value in ijson.kvitems(reader, ""):
            if key in found:
                raise FormatError(f"the key {json.dumps(key)} occurs twice")
            try:
                found[key] = convert(value)
            except FormatError as error:
                raise FormatError(f"{json.dumps(key)}: {error}") from error
    return found


class _Counted:
    """A file for ijson whose first bytes were already taken from it.

    Numbers that Python refuses, of over 4300 digits, crash ijson 3.6; here
    they are an error before it sees them.
    """

    def __init__(self, file: IO[bytes], head: bytes) -> None:
        self._file = file
        self._head = head
        self.n_read = 0

    def read(self, n_bytes: int = -1) -> bytes:
        content = b""
        if n_bytes:
            content = self._head or self._file.read(n_bytes)
            self._head = b""
        self.n_read += len(content)
        # Of so many digits, one of these pieces at least has nothing else.
        for start in range(0, len(content) - _PIECE + 1, _PIECE):
            if content[start : start + _PIECE].isdigit():
                raise FormatError(
                    f"a number of over {_PIECE} digits before byte "
                    f"{self.n_read}; {ADVICE}"
                )
        return content


@contextlib.contextmanager
def _open_json(path: pathlib.Path) -> Iterator[_Counted]:
    with open_raw(path) as file:
        head = file.read(_HEAD_BYTES).removeprefix(_BYTE_ORDER_MARK)
        if head.lstrip()[:1] != b"{":
            raise DataError(
                f"{path}: expected a JSON object. Received: "
                f"{looks_like(head)}; {ADVICE}"
            )
        reader = _Counted(file, head)
        try:
            yield reader
        except FormatError as error:
            raise DataError(f"{path}: {error}") from error
        except DataError:
            raise
        # Of numbers beyond all bounds come plain ones.
        except (ijson.JSONError, ValueError, ArithmeticError) as error:
            reason = next(iter(str(error).splitlines()), "")
            raise DataError(
                f"{path}: not valid JSON in the last 64 KiB before byte "
                f"{reader.n_read}: {reason}; the file is damaged or cut off: "
                f"{ADVICE}"
            ) from error


def _read_graph(
    events: _Events, check_nodes: Callable[[Nodes], None]
) -> dict[str, Any]:
    """The values of the top-level keys that we know; others as None."""
    found: dict[str, Any] = {}
    next(events)
    for token, key in events:
        if token == "end_map":
            break
        if key in found:
            raise FormatError(f"the key {json.dumps(key)} occurs twice")
        event, value = next(events)
        found[key] = None
        if key == "nodes":
            _expect_list(event, key)
            found[key] = _read_nodes(events)
            check_nodes(found[key])
        elif key in _LINK_KEYS:
            _expect_list(event, key)
            found[key] = _read_links(events, key)
        else:
            _skip(events, event)
            found[key] = value
    for _ in events:  # ijson refuses what follows the object.
        pass
    return found


def _complete(found: dict[str, Any]) -> tuple[Nodes, Links, bool]:
    keys = [key for key in _LINK_KEYS if key in found]
    if len(keys) != 1 or "nodes" not in found:
        raise FormatError(
            'expected the keys "nodes" and either "links" or "edges". '
            f"Received: {', '.join(map(json.dumps, found)) or 'no key'}"
        )
    directed = found.get("directed", False)
    if not isinstance(directed, bool):
        raise FormatError('expected true or false as the value of "directed"')
    return found["nodes"], found[keys[0]], directed


def _expect_list(event: str, key: str) -> None:
    if event != "start_array":
        raise FormatError(f"expected a list as the value of {json.dumps(key)}")


def _skip(events: _Events, event: str) -> None:
    """Pass over the rest of a value that began with `event`."""
    depth = 0
    while True:
        depth += event in _STARTS
        depth -= event in ("end_map", "end_array")
        if not depth:
            return
        event, _ = next(events)


def _read_nodes(events: _Events) -> Nodes:
    places: dict[str, int] = {}
    marks = array.array("b")
    all_strings = True
    for event, _ in events:
        if event == "end_array":
            break
        place = f"nodes[{len(places)}]"
        if event != "start_map":
            raise FormatError(f"{place}: expected an object")
        node = _read_object(events, ("id", "test", "val"), place)
        kind, id_ = _id_of(node, place)
        all_strings &= kind == "string"
        if places.setdefault(str(id_), len(places)) != len(marks) // 2:
            raise FormatError(
                f"nodes[{len(marks) // 2}] has the same id as "
                f"nodes[{places[str(id_)]}]: {json.dumps(id_)}"
            )
        marks.extend(_mark_of(node, key, place) for key in ("test", "val"))
    both = np.array(marks, np.int8).reshape(-1, 2)
    return Nodes(list(places), all_strings, both[:, 0], both[:, 1])


def _read_object(
    events: _Events, wanted: tuple[str, ...], place: str
) -> dict[str, tuple[str, Any]]:
    """Event and value of the wanted keys of an object that has begun."""
    found: dict[str, tuple[str, Any]] = {}
    for token, key in events:
        if token == "end_map":
            break
        event, value = next(events)
        if event in _STARTS:
            _skip(events, event)
        if key in found:
            raise FormatError(f"{place}: the key {key!r} occurs twice")
        if key in wanted:
            found[key] = event, value
    return found


def _id_of(node: dict[str, tuple[str, Any]], place: str) -> tuple[str, Any]:
    if "id" not in node:
        raise FormatError(f'{place} has no "id"')
    event, value = node["id"]
    if event != "string" and type(value) is not int:
        raise FormatError(
            f"{place}: expected an integer or a string as id. Received: "
            f"{_odd(event, value)}"
        )
    return event, value


def _mark_of(node: dict[str, tuple[str, Any]], key: str, place: str) -> int:
    event, value = node.get(key, ("null", None))
    if event not in ("boolean", "null"):
        raise FormatError(
            f"{place}: expected true or false as {json.dumps(key)}. Received: "
            f"{_odd(event, value)}"
        )
    return _UNMARKED if value is None else int(value)


def _odd(event: str, value: Any) -> Odd:
    if event in _STARTS:
        return Odd("an object" if event == "start_map" else "a list")
    if event in ("null", "boolean"):
        return Odd(json.dumps(value))
    return Odd(json.dumps(value) if event == "string" else str(value))


class _Ends:
    """One end of every link, in 8 bytes each; see `Links`."""

    def __init__(self, codes: dict[str | int | Odd, int]) -> None:
        self.values = array.array("q")
        self._codes = codes

    def add(self, event: str, value: Any) -> None:
        """Add an end that is no integer >= 0 of 63 bits."""
        plain = event == "string" or type(value) is int
        self._add_other(value if plain else _odd(event, value))

    def complete(self, n_links: int) -> None:
        """Make up for a link that has the end not at all, or twice."""
        missing = len(self.values) < n_links
        if len(self.values) != n_links:
            del self.values[n_links - 1 :]
            self._add_other(Odd("missing" if missing else "given twice"))

    def _add_other(self, value: str | int | Odd) -> None:
        code = self._codes.setdefault(value, len(self._codes))
        self.values.append(-1 - code)


def _read_links(events: _Events, key: str) -> Links:
    codes: dict[str | int | Odd, int] = {}
    ends = {"source": _Ends(codes), "target": _Ends(codes)}
    source, target = (each.values for each in ends.values())
    n_links, inside, end, weighted = 0, False, None, False
    # One flat loop, as Reddit has 116 million tokens here; the commonest
    # first.
    for event, value in events:
        if event == "map_key":
            end = ends.get(value)
            if end is None and value == "weight":
                weighted = True
        elif event == "number" and inside:
            if end is None:
                continue
            if type(value) is int and 0 <= value <= _MOST:
                end.values.append(value)
            else:
                end.add(event, value)
        elif event == "end_map":
            n_links, inside = n_links + 1, False
            if not len(source) == len(target) == n_links:
                for each in ends.values():
                    each.complete(n_links)
        elif inside:
            if end is not None:
                end.add(event, value)
            if event in _STARTS:
                _skip(events, event)
        elif event == "start_map":
            inside = True
        elif event == "end_array":
            break
        else:
            raise FormatError(
                f"{key}[{n_links}]: expected an object. Received: "
                f"{_odd(event, value)}"
            )
    return Links(
        key,
        np.asarray(source, np.int64),
        np.asarray(target, np.int64),
        tuple(codes),
        weighted,
    )
