"""Curves, times and draws -> plots, each of the width of a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from adaptive_gcn.experiments import tables

Point = tuple[int, float, float | None]

_FORMATS = ("png", "pdf")
_WIDTH = (
    4.5  # Inches; at 150 dots an inch, text of 10 points is read on phones.
)

# Okabe and Ito's colours, which colour-blind people tell apart, the orange
# darker to be seen on white, and dashes for prints in grey. A method looks the
# same in all plots.
_LOOKS = {
    tables.name_of(method): {"color": color, "linestyle": dashes}
    for method, color, dashes in (
        ("full", "#0072b2", (0, (5, 1))),
        ("iid", "#b37400", (0, (1, 1))),
        ("node_wise", "#009e73", (0, (4, 1, 1, 1))),
        ("no_vr", "#d55e00", "-"),
        ("adapt", "#000000", "-"),
        ("adapt+skip", "#cc79a7", (0, (5, 1))),
    )
}


class MissingPlotsError(ImportError):
    """Matplotlib is not installed."""


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingPlotsError(
            "plots need matplotlib: pip install 'adaptive-gcn[plots]'"
        ) from error
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


def require() -> None:
    """Raise a MissingPlotsError now rather than after all runs."""
    _pyplot()


def curves(
    runs: dict[str, list[dict[str, Any]]], title: str, path: Path
) -> None:
    """Test accuracy against epochs and against seconds, a line a method.

    A line is the mean of the runs, the band their least and greatest value.
    Seconds are those of a typical epoch of the fastest run times their number:
    the first epoch compiles, and runs side by side slow each other, which
    tells nothing of the method.

    Args:
        runs: Records with curves, by the name of their method.
        title: Above the plot.
        path: Where to write it, without ending.
    """
    figure, axes = _pyplot().subplots(
        2, 1, figsize=(_WIDTH, 6), layout="constrained"
    )
    for name, found in runs.items():
        _draw_curve(axes, found, name)
    axes[0].set(xlabel="epoch", title=title)
    axes[1].set(xlabel="seconds: epoch × seconds per epoch")
    ends = [_settled(found) for found in runs.values()]
    for each in axes:
        each.set(ylabel="test accuracy")
        each.set_ylim(max(0.0, min(low for low, _ in ends) - 0.05))
        each.set_ylim(top=max(high for _, high in ends) + 0.005)
        each.set_xlim(left=0)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
    )
    _write(figure, path)


def _draw_curve(axes: Any, found: list[dict[str, Any]], name: str) -> None:
    accuracy = np.array([run["curves"]["test_accuracy"] for run in found])
    seconds = min(run["seconds_per_epoch"] for run in found)
    epochs = 1 + np.arange(accuracy.shape[1])
    for each, x in zip(axes, (epochs, epochs * seconds), strict=True):
        (line,) = each.plot(
            x,
            accuracy.mean(axis=0),
            label=name,
            linewidth=1.2,
            **_LOOKS.get(name, {}),
        )
        each.fill_between(
            x,
            accuracy.min(axis=0),
            accuracy.max(axis=0),
            color=line.get_color(),
            alpha=0.15,
            linewidth=0,
        )


def _settled(found: list[dict[str, Any]]) -> tuple[float, float]:
    """The accuracy that all runs have left behind them, and the highest."""
    accuracy = np.array([run["curves"]["test_accuracy"] for run in found])
    return float(np.median(accuracy, axis=1).min()), float(accuracy.max())


def bars(values: dict[str, dict[str, float]], label: str, path: Path) -> bool:
    """Groups of bars, each of a scale of its own: {group: {bar: value}}."""
    if not values:
        return False
    n_bars = sum(map(len, values.values()))
    figure, axes = _pyplot().subplots(
        len(values),
        1,
        figsize=(_WIDTH, 1 + 0.3 * n_bars + 0.4 * len(values)),
        height_ratios=[len(bars_) for bars_ in values.values()],
        layout="constrained",
        squeeze=False,
    )
    for each, (group, bars_) in zip(axes[:, 0], values.items(), strict=True):
        colors = [_LOOKS.get(name, {}).get("color") for name in bars_]
        drawn = each.barh(list(bars_), list(bars_.values()), color=colors)
        each.bar_label(drawn, fmt="%.2f", padding=3)
        each.set(title=group, xlabel=label)
        each.margins(x=0.2)
        each.invert_yaxis()
    _write(figure, path)
    return True


def draws(
    points: dict[str, list[Point]], title: str, score: str, path: Path
) -> None:
    """A score against the number of draws, a line a method.

    Args:
        points: Draws, mean and deviation, None of a single run, by the name
            of their method.
        title: Above the plot.
        score: What the means are of.
        path: Where to write it, without ending.
    """
    figure, axes = _pyplot().subplots(
        figsize=(_WIDTH, 3.4), layout="constrained"
    )
    for place, (name, found) in enumerate(points.items()):
        n, mean, deviation = np.array(found, np.float64).T  # None: NaN.
        # A little aside, so that bars at the same number are seen.
        axes.errorbar(
            n * 1.05 ** (place - len(points) // 2),
            mean,
            deviation,
            label=name,
            marker="o",
            markersize=4,
            capsize=2,
            **_LOOKS.get(name, {}),
        )
    ticks = sorted({n for found in points.values() for n, *_ in found})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="draws a layer", ylabel=score, title=title)
    figure.legend(loc="outside lower center", ncols=3)
    _write(figure, path)


def _write(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for ending in _FORMATS:
        # No date and no version: the same records give the same file.
        metadata = (
            {"Software": None}
            if ending == "png"
            else {
                "CreationDate": None,
                "Producer": None,
                "Creator": None,
            }
        )
        figure.savefig(
            path.with_suffix(f".{ending}"), dpi=150, metadata=metadata
        )
    _pyplot().close(figure)
