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


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns play which part.

    Attributes:
        named: The user's own names, by part.
        dropped: Columns to leave out.
    """

    named: dict[str, str]
    dropped: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Columns:
        """Understand `--columns`.

        Raises:
            DataError: If it names a part that there is not.
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
        return cls(named, tuple(dropped))

    def find(self, part: str, names: Iterable[str]) -> str | None:
        """The column that plays a part, or None.

        Raises:
            DataError: If the user named one that is not there.
        """
        names = list(names)
        if part in self.named:
            if self.named[part] in names:
                return self.named[part]
            raise DataError(
                f"--columns={part}={self.named[part]}: there is no such "
                f"column. Received: {', '.join(names[:20])}"
            )
        lower = {name.strip().lower(): name for name in reversed(names)}
        synonyms = _SYNONYMS[part]
        return next((lower[each] for each in synonyms if each in lower), None)
