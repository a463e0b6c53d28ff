"""What workers found in a user's files, counted over all of them."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import apache_beam as beam

from adaptive_gcn.datasets import data_warnings
from adaptive_gcn.datasets.faults import Fault, Faults, FaultyDataError
from adaptive_gcn.datasets.new_file import new_file
from adaptive_gcn.errors import DataError

SHOWN = 4  # One more than is shown, so that it can be said that there is more.

# A kind, and how often it was found, with the first places in alphabetic order.
Finding = tuple[tuple[str, ...], tuple[int, list[str]]]

_T = TypeVar("_T")
Reading = tuple[_T | None, list[Finding]]


def finding(*kind: str, n: int = 1, places: Iterable[str] = ()) -> Finding:
    """A kind of finding: a statistic's name, or a fault's text and remedy."""
    return kind, (int(n), [*places][:SHOWN])


def _of_fault(fault: Fault) -> Finding:
    """What a reader refuses; its text has the count."""
    places = [each for each in fault.examples if each != "..."]
    return finding(fault.problem, fault.remedy, places=places)


def reading(path: pathlib.Path, read: Callable[[Faults], _T]) -> Reading[_T]:
    """Read a shard; what is wrong with it, or is warned of, as findings.

    Args:
        path: The shard.
        read: Reads it.

    Returns:
        What `read` returns, None if it refuses the shard; and the findings.
    """
    faults = Faults()
    result = None
    found: list[Finding] = []
    with data_warnings.kept() as warnings:
        try:
            result = read(faults)
            faults.check()
        except FaultyDataError as error:
            result = None
            found = [_of_fault(each) for each in error.faults]
        except (DataError, OSError) as error:
            problem = str(error)
            if path.name not in problem:
                problem = f"{path}: {problem}"
            found = [finding(problem, "mend or replace this file")]
    return result, [*found, *(finding(f"warning:{each}") for each in warnings)]


def merged(parts: Iterable[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """All findings of a kind as one."""
    total, places = 0, set()
    for n, some in parts:
        total += n
        places = {*sorted({*places, *some})[:SHOWN]}
    return total, sorted(places)


class Write(beam.PTransform):
    """Count all findings of a collection and write them to a file."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self._path = path

    def expand(self, findings: Any) -> Any:
        return (
            findings
            | beam.CombinePerKey(merged)
            | beam.combiners.ToList()
            | beam.Map(_write, self._path)
        )


def _write(rows: list[Finding], path: pathlib.Path) -> None:
    with new_file(path) as file:
        file.write(json.dumps(sorted(rows)).encode())


class Findings:
    """What `Write` has written.

    Attributes:
        counts: Of each statistic.
    """

    def __init__(self, path: pathlib.Path) -> None:
        rows = {
            tuple(kind): (n, places)
            for kind, (n, places) in json.loads(path.read_text("utf-8"))
        }
        self.counts = {k[0]: n for k, (n, _) in rows.items() if len(k) == 1}
        self._places = {k[0]: p for k, (_, p) in rows.items() if len(k) == 1}
        self._faults = {k: v for k, v in rows.items() if len(k) == 2}

    def add_to(self, faults: Faults) -> None:
        """Tell the faults among them."""
        for (problem, remedy), (n, places) in self._faults.items():
            text = problem.replace("{n}", str(n))
            every = range(len(places))
            faults.add(text, remedy, every, places.__getitem__)

    def check_alike(self, part: str) -> None:
        """Refuse shards of a part that have other columns than the rest.

        Raises:
            DataError: If there are several sets of columns.
        """
        kinds = self.names_of(f"{part} columns:")
        if len(kinds) > 1:
            shown = "; ".join(
                f"{self.places_of(f'{part} columns:{each}')[0]} has {each}"
                for each in kinds[:2]
            )
            raise DataError(
                f"{part}: expected the same columns, in the same order, in "
                f"all shards. Received: {shown}; --columns=drop=... leaves "
                "columns out of all"
            )

    def names_of(self, group: str) -> list[str]:
        """Which statistics of a group, as "column:", there are."""
        return [
            name.removeprefix(group)
            for name in self.counts
            if name.startswith(group)
        ]

    def places_of(self, statistic: str) -> list[str]:
        """The first places of a statistic."""
        return list(self._places.get(statistic, ()))
