"""What the columns of a user's tables are, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from adaptive_gcn.errors import DataError

LABEL_PREFIX = "label:"  # Of the columns of multi-label targets.
_SYNONYMS = {
    "source": ("source", "src", "from", "source_id", "from_id", "id_1", "u"),
    "target": ("target", "dst", "to", "target_id", "to_id", "id_2", "v"),
    "weight": ("weight", "w", "edge_weight"),
    "id": ("id", "node_id", "node"),
    "label": ("label", "class", "category"),
    "split": ("split", "partition", "subset"),
}
EDGE_PARTS = ("source", "target", "weight")
NODE_PARTS = ("id", "label", "split")
MASKS = ("train_mask", "val_mask", "test_mask")
# What pandas calls the numbers of the rows in .csv and in Parquet.
_ROW_NUMBERS = ("", "unnamed: 0", "__index_level_0__")
_NO_FEATURES = frozenset(
    (
        *MASKS,
        "valid_mask",
        *_ROW_NUMBERS,
        *(name for part in NODE_PARTS for name in _SYNONYMS[part]),
    )
)


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns play which part.

    Attributes:
        named: The user's own names, by part.
        dropped: Columns to leave out.
        seen: The columns of the tables that were read.
        found: The parts in `named` that a table had.
    """

    named: dict[str, str]
    dropped: tuple[str, ...] = ()
    seen: dict[str, None] = dataclasses.field(default_factory=dict)
    found: set[str] = dataclasses.field(default_factory=set)

    @classmethod
    def parse(cls, text: str) -> Columns:
        """Understand `--columns`.

        Raises:
            DataError: If it names a part that there is not, or gives a part
                or a column twice.
        """
        pairs = [word.partition("=") for word in text.split(",") if word]
        known = (*_SYNONYMS, "drop")
        for part, _, name in pairs:
            if part.strip() not in known or not name:
                raise DataError(
                    f"--columns={text}: expected part=column, comma-separated, "
                    f"each part one of {', '.join(known)}. Received: "
                    f"{part}={name}"
                )
        named = {part.strip(): name for part, _, name in pairs}
        dropped = [name for part, _, name in pairs if part.strip() == "drop"]
        named.pop("drop", None)
        for parts in (EDGE_PARTS, NODE_PARTS):
            used = [name for part, _, name in pairs if part.strip() in parts]
            _check_once(text, [*used, *dropped])
        _check_once(text, [p.strip() for p, *_ in pairs if p.strip() != "drop"])
        return cls(named, tuple(dropped))

    def find(self, part: str, names: Iterable[str]) -> str | None:
        """The column that plays a part and no other, or None."""
        names = list(names)
        if part in self.named:
            return self.named[part] if self.named[part] in names else None
        parts = EDGE_PARTS if part in EDGE_PARTS else NODE_PARTS
        taken = {*self.dropped, *(self.named.get(each) for each in parts)}
        free = [name for name in reversed(names) if name not in taken]
        lower = {name.strip().lower(): name for name in free}
        synonyms = _SYNONYMS[part]
        return next((lower[each] for each in synonyms if each in lower), None)

    def note(self, names: Iterable[str], parts: Iterable[str]) -> None:
        """Remember the columns of a table, and which parts they may play."""
        names = list(names)
        self.seen.update(dict.fromkeys(names))
        self.found.update(p for p in parts if self.named.get(p) in names)

    def check(self) -> None:
        """Refuse names that no table had.

        Raises:
            DataError: If there is one.
        """
        pairs = [
            (part, self.named[part], part in self.found) for part in self.named
        ]
        pairs += [("drop", name, name in self.seen) for name in self.dropped]
        for part, name, there in pairs:
            if not there:
                received = ", ".join(list(self.seen)[:20]) or "no table"
                raise DataError(
                    f"--columns={part}={name}: there is no such column. "
                    f"Received: {received}"
                )


def no_features(names: Iterable[str]) -> list[str]:
    """Of columns that play no part: ids, answers and row numbers by name.

    As features they would tell the model what it is to predict.
    """
    return [each for each in names if each.strip().lower() in _NO_FEATURES]


def _check_once(text: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"--columns={text}: {name} is there twice; expected one part "
                "a column, and one column a part"
            )
