"""What is run: the cells of the paper's tables and figures."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

from absl import flags
from absl.testing import flagsaver

from adaptive_gcn import main
from adaptive_gcn.config import Config
from adaptive_gcn.datasets import download

DATASETS = ("cora", "citeseer", "pubmed", "reddit")
METHODS = ("full", "iid", "node_wise", "no_vr", "adapt")

# Readings of the paper, each with the flag files it takes after that of the
# data set. Within a recipe all methods share all settings.
RECIPES = {
    "paper": ("paper",),
    "official": ("official",),
    "tuned": (),
    "free": ("{}_free",),
}
DRAWS = (32, 64, 128, 256, 512, 1024)
# Searches choose on seeds from here on; those of the tables lie below.
FIRST_SEARCH_SEED = 100

# Data sets whose sizes in the paper are not those of paper.cfg, official.cfg.
_SIZES = {
    ("paper", "pubmed"): ("pubmed_sizes",),
    ("paper", "reddit"): ("reddit_sizes",),
    ("official", "pubmed"): ("pubmed_sizes", "pubmed_identity"),
    ("official", "reddit"): ("reddit_sizes",),
}
# A graph of mean degree 88, in a file that people share; not in the paper.
DENSE = "tolokers"
UNFETCHED = ("reddit", DENSE)  # Nothing fetches their files.
NO_FILES = "not run: raw files needed"  # Said of those without files.
FREE = ("cora", "citeseer")  # Have settings for sizes other than the paper's.

# What runs are for, beside the tables, and the flags for it.
_PURPOSES = {
    "": (),
    # For a figure: of a fixed length, the test nodes scored at every epoch.
    "curves": ("--test_curve", "--patience=0"),
    # To choose settings: the test nodes are not looked at.
    "search": ("--noevaluate_test",),
    "times": ("--epochs=3", "--patience=0"),
    "draws": (),  # Accuracy against the number of draws.
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One entry of a table: runs that differ in their seed only.

    Attributes:
        dataset: One of `DATASETS`, "test", the generated graph, or `DENSE`.
        recipe: One of `RECIPES`.
        method: One of `METHODS`, and overlays joined to it by "+".
        purpose: What its runs are for, of `_PURPOSES`; "" for a table.
        words: Further flags.
    """

    dataset: str
    recipe: str
    method: str
    purpose: str = ""
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its folder under the results folder; no matter where files lie."""
        parts = [self.purpose, self.dataset, self.recipe, self.method]
        words = (w for w in self.words if not w.startswith("--dataset_dir="))
        parts.append(",".join(word.lstrip("-") for word in words))
        return "/".join(part for part in parts if part)

    def flag_words(self) -> list[str]:
        """What to give to `python -m adaptive_gcn.main`."""
        files = [
            self.dataset,
            *(each.format(self.dataset) for each in RECIPES[self.recipe]),
            *_SIZES.get((self.recipe, self.dataset), ()),
            *self.method.split("+"),
        ]
        words = [f"--flagfile=flags/{name}.cfg" for name in files]
        return [*words, *_PURPOSES[self.purpose], *self.words]

    def config(self, seed: int = 0) -> Config:
        """Its settings; reads the flag files in the working folder."""
        words = [*self.flag_words(), f"--seed={seed}"]
        with flagsaver.flagsaver():
            return main.parse_flags(["experiments", *words])


def _table1() -> list[Cell]:
    return [
        Cell(dataset, recipe, method)
        for dataset in DATASETS
        for recipe in ("tuned", "official", "paper")
        for method in METHODS
    ]


def _free() -> list[Cell]:
    return [
        Cell(dataset, "free", method) for dataset in FREE for method in METHODS
    ]


def _best_validation() -> list[Cell]:
    """The settings that won the searches, by validation nodes."""
    row = "--normalization=row"
    winners = {
        ("cora", "tuned", "adapt"): (row, "--learning_rate=3e-3"),
        ("cora", "tuned", "full"): (row, "--dropout=0.5"),
        ("citeseer", "tuned", "adapt"): (row, "--identity_weight=0.5"),
        ("citeseer", "tuned", "full"): (row, "--learning_rate=3e-3"),
        ("cora", "free", "adapt"): (),
        ("cora", "free", "full"): ("--batch_size=32", "--dropout=0.5"),
        ("citeseer", "free", "adapt"): (),
        ("citeseer", "free", "full"): (
            "--batch_size=64",
            "--identity_weight=0",
        ),
    }
    return [Cell(*which, words=words) for which, words in winners.items()]


def _variants(datasets: Iterable[str], *overlays: str) -> list[Cell]:
    """Adapt, and Adapt with each overlay."""
    return [
        Cell(dataset, recipe, method)
        for dataset in datasets
        for recipe in ("tuned", "official", "paper")
        for method in ("adapt", *(f"adapt+{each}" for each in overlays))
    ]


def _curves(datasets: Iterable[str], methods: Iterable[str]) -> list[Cell]:
    return [
        Cell(dataset, "official", method, "curves")
        for dataset in datasets
        for method in methods
    ]


def _times() -> list[Cell]:
    like = ("--dataset=reddit_like",)
    return [
        Cell(dataset, "tuned", method, "times", words)
        for dataset, words in (("pubmed", ()), ("reddit", like))
        for method in METHODS
        if method != "no_vr"
    ]


def dense_file() -> Path:
    """Where the file of `DENSE` is, or would be."""
    root = download.data_root(str(flags.FLAGS["data_dir"].value))
    below = root / "other" / f"{DENSE}.npz"
    return below if below.exists() else root / f"{DENSE}.npz"


def dense_words() -> tuple[str, ...]:
    """Flags that name the file of `DENSE`."""
    return (f"--dataset_dir={dense_file()}",)


def _draws() -> list[Cell]:
    # With the paper's number of draws it is the cell of Table 1.
    papers = {"cora": 128, "citeseer": 128, "pubmed": 256}
    return [
        Cell(dataset, "tuned", method)
        if n == papers.get(dataset)
        else _with_draws(dataset, method, n)
        for dataset in (*papers, DENSE)
        for method in ("iid", "no_vr", "adapt")
        for n in DRAWS
    ]


def _with_draws(dataset: str, method: str, n: int) -> Cell:
    place = dense_words() if dataset == DENSE else ()
    words = (f"--samples_per_layer={n}", *place)
    return Cell(dataset, "tuned", method, "draws", words)


def _search(
    dataset: str,
    methods: Iterable[str],
    *choices: str,
    recipe: str = "tuned",
) -> list[Cell]:
    """Every combination of some choices, each of words joined by "|"."""
    settings = itertools.product(*(each.split("|") for each in choices))
    return [
        Cell(dataset, recipe, method, "search", tuple(words))
        for words in settings
        for method in methods
    ]


def _search_free(
    dataset: str, batches: str, draws: str, of_full: str, last: str
) -> list[Cell]:
    """Sizes beside the paper's; Full, which draws nothing, has `of_full`."""
    return [
        cell
        for method, choice in (("adapt", draws), ("full", of_full))
        for cell in _search(
            dataset, [method], batches, choice, last, recipe="free"
        )
    ]


def _all_layers() -> list[Cell]:
    # The tuned recipe reduces the variance of all layers as it is.
    return [
        cell
        for cell in _variants(["cora"], "all_layers")
        if cell.recipe != "tuned"
    ]


def _quick() -> list[Cell]:
    words = ("--epochs=8",)
    methods = ("full", "iid", "adapt")
    plain = [Cell("test", "tuned", each, words=words) for each in methods]
    curves = [
        Cell("test", "tuned", each, "curves", words)
        for each in ("full", "adapt")
    ]
    return [*plain, *curves]


GROUPS: dict[str, Callable[[], list[Cell]]] = {
    "table1": _table1,
    "table2": lambda: _variants(["cora"], "skip", "two_hop"),
    "all_layers": _all_layers,
    "supplement": lambda: _variants(["citeseer", "pubmed"], "skip"),
    "free": _free,
    "best_validation": _best_validation,
    "figure2": lambda: _curves(DATASETS, METHODS),
    "figure3b": lambda: _curves(
        ["cora", "citeseer", "pubmed"], ["adapt", "adapt+skip"]
    ),
    "figure3a": _times,
    "variance": _draws,
    "quick": _quick,
    "search_cora": lambda: _search(
        "cora",
        ["adapt", "full"],
        "--weight_average=0.98",
        "--batch_size=256",
        "--refresh_interval=5",
        "--normalization=sym|--normalization=row",
        "--learning_rate=1e-3|--learning_rate=3e-3",
        "--dropout=0|--dropout=0.5",
    ),
    "search_citeseer": lambda: _search(
        "citeseer",
        ["adapt", "full"],
        "--weight_average=0.98",
        "--samples_per_layer=128",
        "--normalization=sym|--normalization=row",
        "--learning_rate=1e-3|--learning_rate=3e-3",
        "--identity_weight=0|--identity_weight=0.5",
    ),
    "search_pubmed": lambda: _search(
        "pubmed",
        ["adapt", "full"],
        "--identity_weight=1|--identity_weight=1.5",
        "--weight_average=0|--weight_average=0.995",
    ),
    "search_pubmed_lambda": lambda: _search(
        "pubmed",
        ["adapt"],
        "--variance_weight=0.05|--variance_weight=0.15|--variance_weight=0.5",
    ),
    "search_pubmed_term": lambda: _search(
        "pubmed",
        ["adapt"],
        "--network_term=mean_logit|--network_term=none",
    ),
    "search_free_cora": lambda: _search_free(
        "cora",
        "--batch_size=64|--batch_size=32",
        "--samples_per_layer=128|--samples_per_layer=512",
        "--learning_rate=1e-3|--learning_rate=3e-3",
        "--dropout=0|--dropout=0.5",
    ),
    "search_free_citeseer": lambda: _search_free(
        "citeseer",
        "--batch_size=256|--batch_size=64",
        "--samples_per_layer=256|--samples_per_layer=1024",
        "--identity_weight=0|--identity_weight=0.5",
        "--learning_rate=1e-3|--learning_rate=3e-3",
    ),
}
