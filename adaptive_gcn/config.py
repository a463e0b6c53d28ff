"""Every setting of a run, with its default, its range and its help text.

`main` turns each field into a command-line flag of the same name; nothing
else reads flags. No TensorFlow and no absl here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adaptive_gcn.self_dependent import FORMS
from adaptive_gcn.split_rule import SplitRule

PAPER_VARIANCE_WEIGHT = 0.5  # lambda of Eq. (10), Sec. 4.2.

# Flags that say what is done and where things lie, but bear on no result.
PLACES = (
    "mode",
    "to",
    "data_dir",
    "dataset_dir",
    "store_dir",
    "output_dir",
    "overwrite",
    "nodes",
    "predictions",
    "embeddings",
    "export_dir",
    "export_name",
    "resume",
    "checkpoint_seconds",
    "tensorboard",
    "profile_step",
)
# Modes that work with the weights of an earlier run.
MODES_ON_A_RUN = ("evaluate", "predict", "export")

# Flags that came after runs had been recorded. Their defaults are what was
# done before, so a run that lacks them has these.
LATER = (
    "precompute",
    "reddit_format",
    "link_ends",
    "reddit_like_scale",
    "block_entries",
    "evaluate_test",
    "test_curve",
    "weight_average",
    "nodes",
    "predictions",
    "embeddings",
    "export_dir",
    "export_name",
    "resume",
    "checkpoint_seconds",
    "tensorboard",
    "profile_step",
    "distribute",
    "dataset_dir",
    "columns",
    "missing_features",
    "split_seed",
)


def later_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Flags that came after a run's settings were stored: what they were."""
    defaults = {each.name: each.default for each in dataclasses.fields(Config)}
    return {name: defaults[name] for name in LATER if name not in stored}


PREDICTION_FORMATS = (".csv", ".parquet")


class ConfigError(ValueError):
    """A setting is out of range, or two settings contradict each other."""


def _option(
    default: Any,
    help: str,
    choices: tuple[str, ...] = (),
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
) -> Any:
    """Declare a field: `low` <= value <= `high`, or `above` < value."""
    metadata = {
        "help": help,
        "choices": choices,
        "low": low,
        "above": above,
        "high": high,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of one run. Immutable; checked at construction.

    The help text of each field is its documentation.

    Raises:
        ConfigError: If a value is out of its range, or settings contradict
            each other. The message names the flag, the value and the range.
    """

    # What to run.
    mode: str = _option(
        "train",
        "train; evaluate the weights of a run again, predict classes with "
        "them, or export them as a SavedModel; convert the data set to the "
        "form that --to names; or check_data: statistics, memory needed, and "
        "every fault of the data set",
        ("train", *MODES_ON_A_RUN, "convert", "check_data"),
    )
    output_dir: str = _option(
        "",
        "folder of the run: result.json, history.csv, config.json and weights; "
        "empty: a new folder under runs/. With --mode=convert: where to write",
    )
    overwrite: bool = _option(
        False, "replace the results that output_dir already holds"
    )
    resume: bool = _option(
        False,
        "go on with the killed or stopped run in output_dir, to the numbers "
        "that it would have had; without a checkpoint there: start anew",
    )
    checkpoint_seconds: float = _option(
        30.0,
        "least time between two checkpoints, which are made as an epoch ends; "
        "0: after every epoch",
        low=0,
    )
    tensorboard: bool = _option(
        False,
        "also write scalars of each epoch and histograms of the weights to "
        "output_dir/tensorboard (needs the extra [tensorboard])",
    )
    profile_step: int = _option(
        0,
        "profile this step of the run, counted from 1, for TensorBoard; "
        "0: none",
        low=0,
    )
    seed: int = _option(
        0, "seed of weights, shuffling and sampling", low=0, high=2**31 - 1
    )
    device: str = _option(
        "auto", "auto (a GPU where there is one), cpu, gpu, or gpu:N"
    )

    distribute: str = _option(
        "none",
        "none; mirrored: over all GPUs of this machine; multi_worker: over "
        "the processes that TF_CONFIG names, which share output_dir",
        ("none", "mirrored", "multi_worker"),
    )

    # What to do with the weights of a run.
    nodes: str = _option(
        "",
        "nodes to evaluate or predict: all, train, val, test, or a file with "
        "one id a line; empty: all to predict, val and test to evaluate",
    )
    predictions: str = _option(
        "",
        "file that --mode=predict writes, .csv or .parquet; empty: "
        "predictions.csv in output_dir",
    )
    embeddings: bool = _option(
        False, "add the last hidden layer to the predictions"
    )
    export_dir: str = _option(
        "",
        "folder of exported models, <export_dir>/<export_name>/<version>; "
        "empty: export in output_dir",
    )
    export_name: str = _option(
        "", "name that a model is served as; empty: that of the data set"
    )

    # Data.
    dataset: str = _option(
        "synthetic",
        "data set; synthetic and reddit_like are generated and need no file; "
        "folder is your own, in --dataset_dir",
        (
            "synthetic",
            "cora",
            "citeseer",
            "pubmed",
            "reddit",
            "reddit_like",
            "folder",
        ),
    )
    dataset_dir: str = _option(
        "",
        "your own graph: a folder, a store or one .npz file, see "
        "docs/own_graph.md; implies --dataset=folder",
    )
    columns: str = _option(
        "",
        "what the columns of your tables are, where the names do not tell: "
        "source=, target=, weight=, id=, label=, split=, and drop= for a "
        "column to leave out, comma-separated, as id=user,label=kind",
    )
    missing_features: str = _option(
        "refuse",
        "if your graph has no features: refuse it; give every node the "
        "constant 1; or its degree, as [1, log(1 + degree)]",
        ("refuse", "constant", "degree"),
    )
    data_dir: str = _option(
        "",
        "folder of the raw files; empty: ADAPTIVE_GCN_DATA_DIR, then the "
        "download cache",
    )
    store_dir: str = _option(
        "",
        "folder for the memory-mapped copies of large data sets; empty: the "
        "folder stores in the user's cache",
    )
    reddit_format: str = _option(
        "auto",
        "files of --dataset=reddit: graphsage (reddit-G.json and so on), "
        "converter (reddit.npz, reddit_adj.npz), dgl (reddit_data.npz, "
        "reddit_graph.npz, with ten times the edges); auto: the first of "
        "these that is complete",
        ("auto", "graphsage", "converter", "dgl"),
    )
    link_ends: str = _option(
        "auto",
        "what the ends of the links in reddit-G.json are: ids of nodes, or "
        "positions in the list of nodes; auto: what fits, with a warning "
        "where both do and differ",
        ("auto", "ids", "positions"),
    )
    to: str = _option(
        "store",
        "what --mode=convert writes: a store, or files in one of the formats "
        "of Reddit",
        ("store", "graphsage", "converter", "dgl"),
    )
    split: str = _option(
        "fastgcn",
        "fastgcn: all but validation and test are training nodes; planetoid: "
        "20 training nodes per class; given: as your files say (your own "
        "graph's default), given:K where they have several; "
        "random:0.6/0.2/0.2: drawn with --split_seed, from each class the "
        "same fractions",
    )
    split_seed: int = _option(
        0, "seed of --split=random:A/B/C", low=0, high=2**31 - 1
    )
    features: str = _option(
        "l2",
        "scaling of the feature rows: raw, row (sum 1), l2 (length 1), or "
        "standard (columns, by training nodes)",
        ("raw", "row", "l2", "standard"),
    )
    normalization: str = _option(
        "sym",
        "sym: D^-1/2 (A+I) D^-1/2, Eq. (1); row: D^-1 (A+I)",
        ("sym", "row"),
    )
    two_hop: bool = _option(
        False, "replace the normalised adjacency M by M + M^2 (Sec. 6.2)"
    )
    identity_weight: float = _option(
        0.0,
        "multiple of the identity added after normalisation",
        low=0,
        high=1e6,
    )

    precompute: bool = _option(
        False,
        "aggregate the features once, A^X, before training: the bottom layer "
        "is then not sampled (the paper's setting for Reddit)",
    )

    # Network.
    hidden_units: tuple[int, ...] = _option(
        (16,), "units of each hidden layer, bottom-up, comma-separated", low=1
    )
    attention: str = _option(
        "none",
        "none; paper: relu(W1 g(v) + W2 g(u)), Eq. (14); plus_one: "
        "relu(w1 x(v) + w2 x(u)) + 1, the authors' code",
        ("none", "paper", "plus_one"),
    )
    skip: bool = _option(
        False, "skip connection over the top two layers, Eqs. (11)-(13)"
    )
    dropout: float = _option(
        0.0, "dropout rate on hidden layers in training", low=0, high=0.99
    )

    # Sampling.
    method: str = _option(
        "adapt",
        "full: every neighbour; iid: FastGCN; node_wise: GraphSAGE; adapt: "
        "the paper's sampler",
        ("full", "iid", "node_wise", "adapt"),
    )
    samples_per_layer: tuple[int, ...] = _option(
        (128,),
        "nodes drawn for each sampled layer, bottom-up, comma-separated; one "
        "number serves all",
        low=1,
    )
    n_neighbors: int = _option(
        5, "neighbours per node with --method=node_wise", low=1
    )
    replacement: bool = _option(
        True,
        "draw with replacement, Eq. (5); false: fixed-size, weight 1/pi, less "
        "noise; variances are then still those of draws with replacement",
    )
    proposal: str = _option(
        "l2",
        "q ~ sum_v p(u|v) g(u), Eq. (9); l2: q ~ sqrt(sum_v a(v,u)^2) g(u), "
        "which has the least variance where g = |h|",
        ("sum", "l2"),
    )
    self_dependent: str = _option(
        "exp",
        "g: linear is |W_g x| + a floor; relu1 is relu(W_g x) + 1; "
        "exp(W_g x); softplus(W_g x + 1)",
        FORMS,
    )
    refresh_interval: int = _option(
        1,
        "steps between two evaluations of g for all nodes; above 1 the draws "
        "lag behind W_g, which costs variance; the importance weights and the "
        "gradient of W_g take the lag into account",
        low=1,
    )
    prefetch: int = _option(
        0,
        "batches sampled ahead; above 0 a trained g lags by as many steps and "
        "the run is not reproducible bit by bit",
        low=0,
        high=1000,
    )

    # Variance reduction.
    variance_weight: float | None = _option(
        None,
        "lambda of Eq. (10); default 0.5 with --method=adapt, else 0; 0 "
        "freezes W_g",
        low=0,
    )
    variance_gradient: str = _option(
        "exact",
        "gradient of the variance for W_g: exact (unbiased for draws with "
        "replacement), or paper: Eq. (17)",
        ("exact", "paper"),
    )
    variance_layers: str = _option(
        "all", "layers whose variance is reduced", ("top", "all")
    )
    network_term: str = _option(
        "mean_logit",
        "term that lambda adds to the loss of the network weights: none; the "
        "variance; mean_logit: the authors' code",
        ("none", "variance", "mean_logit"),
    )

    # Training.
    batch_size: int = _option(256, "training nodes per step", low=1)
    epochs: int = _option(300, "most epochs to train", low=1)
    learning_rate: float = _option(
        3e-3, "learning rate of Adam, network weights", above=0
    )
    sampler_learning_rate: float = _option(
        1e-3, "learning rate of Adam, W_g", above=0
    )
    weight_average: float = _option(
        0.0,
        "momentum of a running average of the network weights over steps, "
        "which is then what is validated and kept; 0: the weights themselves",
        low=0,
        high=0.9999,
    )
    weight_decay: float = _option(
        4e-4, "L2: half of this times |W|^2 of the bottom layer", low=0
    )
    block_entries: int = _option(
        500_000,
        "most adjacency entries in one product of the full architecture",
        low=1,
        high=2**31 - 1,
    )
    select: str = _option(
        "val_loss",
        "what chooses the epoch whose weights are used",
        ("val_loss", "val_accuracy"),
    )
    patience: int = _option(
        30, "epochs without a better --select before stopping; 0: never", low=0
    )
    evaluate_test: bool = _option(
        True,
        "score the test nodes once, at the end; --noevaluate_test while "
        "settings are being chosen",
    )
    test_curve: bool = _option(
        False,
        "score the test nodes after every epoch as well, for figures only: "
        "--select never sees it",
    )

    # The built-in graph.
    synthetic_nodes: int = _option(2708, "nodes of --dataset=synthetic", low=30)
    synthetic_features: int = _option(1433, "words of its vocabulary", low=10)
    synthetic_classes: int = _option(7, "its classes", low=2)
    synthetic_degree: float = _option(3.9, "its mean degree", above=0)
    synthetic_homophily: float = _option(
        0.81, "fraction of its edges inside a class", low=0, high=1
    )
    synthetic_label_noise: float = _option(
        0.08, "fraction of its nodes with a wrong label", low=0, high=1
    )
    synthetic_word_signal: float = _option(
        0.28,
        "probability that a word tells of the class; lower is harder",
        low=0,
        high=1,
    )
    synthetic_seed: int = _option(0, "seed of the graph itself", low=0)
    reddit_like_scale: float = _option(
        1.0,
        "nodes and edges of --dataset=reddit_like, as a fraction of Reddit's",
        above=0,
        high=100,
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_field(field, getattr(self, field.name))
        if self.variance_weight is None:
            adapt = self.method == "adapt"
            weight = PAPER_VARIANCE_WEIGHT if adapt else 0.0
            object.__setattr__(self, "variance_weight", weight)
        _settle_own_graph(self)
        _check_together(self)

    @property
    def n_layers(self) -> int:
        """Number of graph convolutions."""
        return len(self.hidden_units) + 1

    @property
    def n_sampled_layers(self) -> int:
        """Number of graph convolutions whose nodes are drawn."""
        return self.n_layers - self.precompute

    @property
    def samples(self) -> tuple[int, ...]:
        """Draws of each sampled layer, bottom-up."""
        if len(self.samples_per_layer) == 1:
            return self.samples_per_layer * self.n_sampled_layers
        return self.samples_per_layer

    @property
    def draws_from_q(self) -> bool:
        """Whether a layer is drawn from one q, so that it has a variance."""
        return self.method in ("adapt", "iid")

    @property
    def trains_sampler(self) -> bool:
        """Whether W_g is trained: `adapt` with lambda > 0."""
        return self.method == "adapt" and bool(self.variance_weight)

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON values, by flag name."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in dataclasses.asdict(self).items()
        }


_KINDS: dict[Any, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "tuple[int, ...]": (tuple,),
}


def _check_kind(field: dataclasses.Field[Any], value: Any) -> None:
    right = isinstance(value, _KINDS[field.type])
    if isinstance(value, bool):
        right = field.type == "bool"
    if isinstance(value, tuple):
        right = right and all(type(number) is int for number in value)
    if not right:
        raise ConfigError(
            f"--{field.name}={value!r}: expected a value of type {field.type}"
        )


def _check_field(field: dataclasses.Field[Any], value: Any) -> None:
    _check_kind(field, value)
    allowed = field.metadata
    if allowed["choices"] and value not in allowed["choices"]:
        raise ConfigError(
            f"--{field.name}={value}: expected one of "
            f"{', '.join(allowed['choices'])}"
        )
    for number in value if isinstance(value, tuple) else (value,):
        if number is not None and not _in_range(number, allowed):
            finite = "" if math.isfinite(number) else "a finite number, "
            raise ConfigError(
                f"--{field.name}={number}: expected {finite}"
                f"{describe_range(allowed)}"
            )


def _in_range(number: Any, allowed: Any) -> bool:
    low, above, high = (allowed[key] for key in ("low", "above", "high"))
    if low is above is high is None:
        return True
    return (
        math.isfinite(number)
        and (low is None or number >= low)
        and (above is None or number > above)
        and (high is None or number <= high)
    )


def describe_range(allowed: Any) -> str:
    """Say a range in words, for messages and help texts."""
    parts = [
        f"{word} {allowed[key]}"
        for key, word in (
            ("low", "at least"),
            ("above", "above"),
            ("high", "at most"),
        )
        if allowed[key] is not None
    ]
    return " and ".join(parts)


def _settle_own_graph(config: Config) -> None:
    """Let --dataset_dir imply its data set, and that its own default split."""
    object.__setattr__(config, "split", config.split.lower())
    if config.dataset_dir and config.dataset == "synthetic":
        object.__setattr__(config, "dataset", "folder")
    if (config.dataset == "folder") != bool(config.dataset_dir):
        raise ConfigError(
            f"--dataset={config.dataset}, --dataset_dir={config.dataset_dir}: "
            "expected --dataset_dir=FOLDER with --dataset=folder, and with "
            "that only"
        )
    if config.dataset == "folder" and config.split == "fastgcn":
        object.__setattr__(config, "split", "given")


def _check_split(config: Config) -> None:
    try:
        rule = SplitRule.parse(config.split)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    own = config.dataset == "folder"
    if (
        rule.kind == "planetoid"
        and own
        or ":" in config.split
        and not (own or rule.kind == "random")
    ):
        raise ConfigError(
            f"--split={config.split}: --dataset={config.dataset} has no such "
            "split; use given, or random:0.6/0.2/0.2"
        )


def _check_together(config: Config) -> None:
    _check_split(config)
    _check_synthetic(config)
    if not config.hidden_units:
        raise ConfigError("--hidden_units: expected at least one hidden layer")
    if len(config.samples_per_layer) not in (1, config.n_sampled_layers):
        given = ",".join(map(str, config.samples_per_layer))
        raise ConfigError(
            f"--samples_per_layer={given}: expected one number, or "
            f"{config.n_sampled_layers}, one per sampled layer"
        )
    if config.precompute and config.skip:
        raise ConfigError(
            "--skip joins the outputs of two sampled layers; with --precompute "
            "the lower one is not sampled. Use one of the two"
        )
    if config.test_curve and not config.evaluate_test:
        raise ConfigError(
            "--test_curve scores the test nodes, --noevaluate_test does not. "
            "Use one of the two"
        )
    _check_resume(config)
    if config.distribute != "none" and config.profile_step:
        raise ConfigError(
            "--profile_step: expected --distribute=none. Received: "
            f"--distribute={config.distribute}"
        )
    if config.distribute == "multi_worker" and not config.output_dir:
        raise ConfigError(
            "--distribute=multi_worker: expected --output_dir, which all "
            "workers must name"
        )
    if config.mode == "convert" and not config.output_dir:
        raise ConfigError(
            "--mode=convert: expected --output_dir, where to write"
        )
    if config.export_name in (".", "..") or "/" in config.export_name:
        raise ConfigError(
            f"--export_name={config.export_name}: expected the name of a folder"
        )
    if Path(config.predictions or "x.csv").suffix not in PREDICTION_FORMATS:
        raise ConfigError(
            f"--predictions={config.predictions}: expected a name that ends "
            f"in {' or '.join(PREDICTION_FORMATS)}"
        )
    if (
        config.variance_weight
        and config.network_term == "variance"
        and not config.draws_from_q
    ):
        raise ConfigError(
            f"--network_term=variance needs draws from one q, which "
            f"--method={config.method} does not make; use "
            "--network_term=mean_logit or --variance_weight=0"
        )


def _check_resume(config: Config) -> None:
    if not config.resume:
        return
    if config.mode != "train" or config.overwrite or not config.output_dir:
        raise ConfigError(
            "--resume goes on with training: expected --output_dir, the "
            "folder of the run, --mode=train and no --overwrite. Received: "
            f"--output_dir={config.output_dir} --mode={config.mode} "
            f"--overwrite={config.overwrite}"
        )


def _check_synthetic(config: Config) -> None:
    if config.synthetic_degree > config.synthetic_nodes / 4:
        raise ConfigError(
            f"--synthetic_degree={config.synthetic_degree}: expected at most a "
            f"quarter of --synthetic_nodes={config.synthetic_nodes}"
        )
    if config.synthetic_classes > config.synthetic_nodes / 4:
        raise ConfigError(
            f"--synthetic_classes={config.synthetic_classes}: expected at most "
            f"a quarter of --synthetic_nodes={config.synthetic_nodes}"
        )
