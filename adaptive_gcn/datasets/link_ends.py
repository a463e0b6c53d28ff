"""Which nodes the links of a node-link file join.

networkx 1 writes the ends of a link as positions in the node list, networkx 2
as ids, and no file says which. Integers fit both readings if the ids are a
permutation of the positions.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.datasets.node_link import Links, Nodes
from adaptive_gcn.errors import DataError

_LOG = logging.getLogger(__name__)

ENDS = ("auto", "ids", "positions")

_BLOCK = 2**20
_BAD = -1
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NOUNS = {"ids": "no id of a node", "positions": "no position in the node list"}

_Positions = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class _Reading:
    """The ends as positions in the node list, -1 where they fit no node."""

    name: str
    sources: _Positions
    targets: _Positions
    n_bad: int  # Number of links with such an end.


def resolve(
    nodes: Nodes, links: Links, ends: str, source: str
) -> tuple[_Positions, _Positions]:
    """The ends of the links as positions in the node list.

    Args:
        nodes: The node list.
        links: The links.
        ends: "ids", "positions", or "auto" for the one that fits all links.
            If both do, ends are ids; but integers are positions if all ids
            are strings. If the two differ, there is a warning.
        source: Name of the file, for messages.

    Returns:
        Two vectors [n_links] int64.

    Raises:
        DataError: If a link has an end that is no node.
    """
    readings = {
        "ids": _as_ids(nodes, links),
        "positions": _as_positions(len(nodes.keys), links),
    }
    if ends != "auto":
        best = readings[ends]
    elif all(each.n_bad for each in readings.values()):
        best = min(readings.values(), key=lambda each: each.n_bad)
    else:
        best = _choose(**readings, nodes=nodes, links=links, source=source)
    if best.n_bad:
        raise DataError(_complaint(best, links, source) + _advice(readings))
    return best.sources, best.targets


def integer_ids(keys: list[str]) -> npt.NDArray[np.int64] | None:
    """The ids as int64 if all of them are such integers."""
    if not all(map(_INTEGER.fullmatch, keys)):
        return None
    try:
        return np.array(list(map(int, keys)), np.int64)
    except OverflowError:
        return None


def _choose(
    ids: _Reading, positions: _Reading, nodes: Nodes, links: Links, source: str
) -> _Reading:
    """The reading that fits, with a warning if the other is as likely."""
    if ids.n_bad:
        if not nodes.all_strings and 2 * ids.n_bad < len(links.sources):
            _warn(positions, "most ends are ids, but not all", source)
        return positions
    if positions.n_bad or _same(ids, positions):
        return ids
    best = positions if nodes.all_strings and not links.others else ids
    _warn(best, "the ends can be ids or positions, which differ", source)
    return best


def _same(ids: _Reading, positions: _Reading) -> bool:
    return np.array_equal(ids.sources, positions.sources) and np.array_equal(
        ids.targets, positions.targets
    )


def _warn(taken: _Reading, reason: str, source: str) -> None:
    other = "positions" if taken.name == "ids" else "ids"
    _LOG.warning(
        "%s: %s; taken as %s. If that is wrong, give --link_ends=%s (in "
        "Python ends=%r)",
        source,
        reason,
        taken.name,
        other,
        other,
    )


def _reading(name: str, sources: _Positions, targets: _Positions) -> _Reading:
    n_bad = int(np.count_nonzero((sources < 0) | (targets < 0)))
    return _Reading(name, sources, targets, n_bad)


def _as_positions(n_nodes: int, links: Links) -> _Reading:
    ends = []
    for each in (links.sources, links.targets):
        fits = (each >= 0) & (each < n_nodes)
        ends.append(each if fits.all() else np.where(fits, each, _BAD))
    return _reading("positions", *ends)


def _as_ids(nodes: Nodes, links: Links) -> _Reading:
    position_of = dict(zip(nodes.keys, range(len(nodes.keys)), strict=True))
    others = np.array(
        [_position(each, position_of) for each in links.others] or [_BAD],
        np.int64,
    )
    pairs = [
        (int(key), position)
        for key, position in position_of.items()
        if _INTEGER.fullmatch(key) and 0 <= int(key) < 2**63
    ]
    table = np.array(sorted(pairs) or [(-1, _BAD)], np.int64)
    ends = (links.sources, links.targets)
    return _reading("ids", *(_look_up(each, table, others) for each in ends))


def _position(other: Any, position_of: dict[str, int]) -> int:
    known = isinstance(other, str | int)
    return position_of.get(str(other), _BAD) if known else _BAD


def _look_up(
    ends: npt.NDArray[np.int64], table: _Positions, others: _Positions
) -> _Positions:
    """Positions of ends, by a table [n, 2] of (integer id, position)."""
    result = np.empty(len(ends), np.int64)
    for start in range(0, len(ends), _BLOCK):
        block = ends[start : start + _BLOCK]
        place = np.searchsorted(table[:, 0], block)
        found = table[np.minimum(place, len(table) - 1)]
        known = np.where(found[:, 0] == block, found[:, 1], _BAD)
        other = others[np.where(block < 0, -1 - block, 0)]
        result[start : start + _BLOCK] = np.where(block < 0, other, known)
    return result


def _complaint(reading: _Reading, links: Links, source: str) -> str:
    bad = (reading.sources < 0) | (reading.targets < 0)
    first = int(bad.argmax())
    pair = [
        links.end(int(each[first])) for each in (links.sources, links.targets)
    ]
    return (
        f"{source}: {reading.n_bad} of {len(bad)} {links.key} have an end that "
        f"is {_NOUNS[reading.name]}; the first is {links.key}[{first}]: source "
        f"{pair[0]}, target {pair[1]}"
    )


def _advice(readings: dict[str, _Reading]) -> str:
    """Which other reading fits all links, if there is one."""
    for name, reading in readings.items():
        if not reading.n_bad:
            return f". All ends are {name}: give --link_ends={name}"
    return ""
