"""Records of curves and of times -> plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adaptive_gcn.experiments import records, tables
from adaptive_gcn.experiments.grid import Cell

_FORMATS = ("png", "pdf")


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
    results: Path, cells: Sequence[Cell], title: str, path: Path
) -> bool:
    """Test accuracy against epochs and against seconds, a line a cell.

    A line is the mean of the runs, the band their least and greatest value.

    Args:
        results: Folder of the records.
        cells: Of purpose "curves"; those without runs are left out.
        title: Above the plot.
        path: Where to write it, without ending.

    Returns:
        Whether there was something to draw.
    """
    runs = {cell: records.read(results, cell) for cell in cells}
    runs = {cell: found for cell, found in runs.items() if found}
    if not runs:
        return False
    figure, axes = _pyplot().subplots(
        1, 2, figsize=(9, 3.4), sharey=True, layout="constrained"
    )
    for cell, found in runs.items():
        _draw_curve(axes, found, tables.name_of(cell.method))
    axes[0].set(xlabel="epoch", ylabel="test accuracy", title=title)
    axes[1].set(xlabel="seconds of training, one core", xscale="log")
    low = min(_settled(found) for found in runs.values())
    axes[0].set_ylim(bottom=max(0.0, low - 0.05))
    axes[0].legend()
    _write(figure, path)
    return True


def _draw_curve(axes: Any, found: list[dict[str, Any]], label: str) -> None:
    accuracy = np.array([run["curves"]["test_accuracy"] for run in found])
    seconds = np.cumsum([run["curves"]["seconds"] for run in found], axis=1)
    epochs = 1 + np.arange(accuracy.shape[1])
    for each, x in zip(axes, (epochs, seconds.mean(axis=0)), strict=True):
        (line,) = each.plot(x, accuracy.mean(axis=0), label=label, linewidth=1)
        each.fill_between(
            x,
            accuracy.min(axis=0),
            accuracy.max(axis=0),
            color=line.get_color(),
            alpha=0.15,
        )


def _settled(found: list[dict[str, Any]]) -> float:
    """The accuracy that all runs of a cell have left behind them."""
    return min(
        float(np.median(run["curves"]["test_accuracy"])) for run in found
    )


def bars(values: dict[str, dict[str, float]], label: str, path: Path) -> bool:
    """Groups of bars on a logarithmic scale, from {group: {bar: value}}."""
    if not values:
        return False
    figure, axes = _pyplot().subplots(
        1, len(values), figsize=(3.2 * len(values), 3), layout="constrained"
    )
    for each, (group, bars_) in zip(
        np.atleast_1d(axes), values.items(), strict=True
    ):
        drawn = each.bar(list(bars_), list(bars_.values()), log=True)
        each.bar_label(drawn, fmt="%.2g")
        each.set(title=group, ylabel=label)
        each.margins(y=0.15)
        each.tick_params(axis="x", rotation=30)
    _write(figure, path)
    return True


def lines(draw: Callable[[Any], None], n_columns: int, path: Path) -> None:
    """A row of axes that `draw` fills."""
    figure, axes = _pyplot().subplots(
        1, n_columns, figsize=(3.4 * n_columns, 3.2), layout="constrained"
    )
    draw(np.atleast_1d(axes))
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
