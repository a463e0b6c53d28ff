"""What is wrong with a user's data, gathered before it is said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from adaptive_gcn.errors import DataError

_SHOWN = 3
_LONGEST = 200


@dataclasses.dataclass(frozen=True)
class Fault:
    """All faults of one kind.

    Attributes:
        problem: What is wrong, and how often.
        examples: The first few: where, and the value there.
        remedy: What to do.
    """

    problem: str
    examples: tuple[str, ...]
    remedy: str

    def __str__(self) -> str:
        shown = "".join(f"; {each}" for each in self.examples)
        return f"{self.problem}{shown.replace(';', ':', 1)}; {self.remedy}"


def _short(example: str) -> str:
    return example if len(example) <= _LONGEST else f"{example[:_LONGEST]}..."


class FaultyDataError(DataError):
    """Data with faults; its text is the first one, and how many follow."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        more = len(faults) - 1
        rest = "kind of fault" if more == 1 else "kinds of fault"
        tail = f" ({more} more {rest}: --mode=check_data lists all)"
        super().__init__(f"{faults[0]}{tail if more else ''}")
        self.faults = tuple(faults)


class Faults:
    """Gathers faults; `check` raises them."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(
        self,
        problem: str,
        remedy: str,
        places: Sequence[int] | Any = (),
        describe: Callable[[int], str] = str,
    ) -> None:
        """Note a kind of fault.

        Args:
            problem: What is wrong, with the count of it.
            remedy: What to do.
            places: Where it is; only the first few are described.
            describe: Says a place in words, with the value there.
        """
        shown = [_short(describe(int(place))) for place in places[:_SHOWN]]
        if len(places) > _SHOWN:
            shown.append("...")
        self._faults.append(Fault(problem, tuple(shown), remedy))

    def check(self) -> None:
        """Raise what was noted so far.

        Raises:
            FaultyDataError: If anything was.
        """
        if self._faults:
            raise FaultyDataError(self._faults)
