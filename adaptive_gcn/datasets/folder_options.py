"""How to read a user's graph."""

from __future__ import annotations

import dataclasses

from adaptive_gcn.split_rule import SplitRule


@dataclasses.dataclass(frozen=True)
class FolderOptions:
    """How to read a user's graph.

    Attributes:
        columns: See `--columns`.
        missing_features: See `--missing_features`.
        split: A given or random split.
        split_seed: Seed of a random one.
    """

    columns: str = ""
    missing_features: str = "refuse"
    split: SplitRule = SplitRule("given")
    split_seed: int = 0
