"""What `--split` may say, and what it means."""

from __future__ import annotations

import dataclasses

EXPECTED = (
    "expected fastgcn, planetoid, given (as the files say), given:K (the K-th "
    "of several, from 0), or random:A/B/C (fractions to train, validate and "
    "test on, as random:0.6/0.2/0.2)"
)


@dataclasses.dataclass(frozen=True)
class SplitRule:
    """Which nodes train, validate and test.

    Attributes:
        kind: "fastgcn", "planetoid", "given" or "random".
        index: Which of several given splits.
        fractions: Of a random split; their sum is at most 1.
    """

    kind: str
    index: int = 0
    fractions: tuple[float, ...] = ()

    @classmethod
    def parse(cls, text: str) -> SplitRule:
        """The rule that a text describes.

        Raises:
            ValueError: If it describes none; the message says what would.
        """
        kind, colon, rest = text.lower().partition(":")
        try:
            if kind in ("fastgcn", "planetoid", "given") and not colon:
                return cls(kind)
            if kind == "given" and rest.isdecimal():
                return cls(kind, index=int(rest))
            if kind == "random":
                return cls(kind, fractions=_fractions(rest))
        except ValueError:
            pass
        raise ValueError(f"--split={text}: {EXPECTED}")


def _fractions(text: str) -> tuple[float, ...]:
    fractions = tuple(float(word) for word in text.split("/"))
    right = len(fractions) == 3 and all(0 <= each <= 1 for each in fractions)
    if not right or 0 in fractions[:2] or sum(fractions) > 1 + 1e-9:
        raise ValueError(text)
    return fractions
