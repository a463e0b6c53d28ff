"""Every setting reaches what it is meant for: it changes a run's numbers."""

import csv
import dataclasses
import functools
import json

import pytest

from adaptive_gcn import training
from adaptive_gcn.config import PLACES, Config
from tests.helpers import SMALL_RUN

BASE = {**SMALL_RUN, "sampler_learning_rate": 0.1}
# Other values, and what they need besides.
CHANGES = {
    "seed": [{"seed": 1}],
    "split": [{"split": "random:0.5/0.25/0.25"}],
    "split_seed": [{"split": "random:0.5/0.25/0.25", "split_seed": 1}],
    "features": [{"features": "row"}, {"features": "standard"}],
    "normalization": [{"normalization": "row"}],
    "two_hop": [{"two_hop": True}],
    "identity_weight": [{"identity_weight": 0.5}],
    "precompute": [{"precompute": True}],
    "hidden_units": [{"hidden_units": (5,)}],
    "attention": [{"attention": "plus_one"}, {"attention": "paper"}],
    "skip": [{"skip": True}],
    "dropout": [{"dropout": 0.5}],
    "method": [
        {"method": method, "variance_weight": 0.0}
        for method in ("full", "iid", "node_wise")
    ],
    "samples_per_layer": [{"samples_per_layer": (9,)}],
    "n_neighbors": [
        {"method": "node_wise", "variance_weight": 0.0, "n_neighbors": 2},
        {"method": "node_wise", "variance_weight": 0.0, "n_neighbors": 1},
    ],
    "replacement": [
        {"replacement": False},
        {"method": "iid", "variance_weight": 0.0, "replacement": False},
        {"method": "node_wise", "variance_weight": 0.0, "replacement": False},
    ],
    "proposal": [{"proposal": "sum"}],
    "self_dependent": [{"self_dependent": "softplus"}],
    "refresh_interval": [{"refresh_interval": 3}],
    "variance_weight": [{"variance_weight": 0.25}],
    "variance_gradient": [{"variance_gradient": "paper"}],
    "variance_layers": [{"variance_layers": "top"}],
    "network_term": [{"network_term": "none"}, {"network_term": "variance"}],
    "batch_size": [{"batch_size": 15}],
    "epochs": [{"epochs": 3}],
    "learning_rate": [{"learning_rate": 0.02}],
    "sampler_learning_rate": [{"sampler_learning_rate": 0.2}],
    "weight_average": [{"weight_average": 0.5}],
    "weight_decay": [{"weight_decay": 0.1}],
    "synthetic_nodes": [{"synthetic_nodes": 91}],
    "synthetic_features": [{"synthetic_features": 31}],
    "synthetic_classes": [{"synthetic_classes": 4}],
    "synthetic_degree": [{"synthetic_degree": 5.0}],
    "synthetic_homophily": [{"synthetic_homophily": 0.6}],
    "synthetic_label_noise": [{"synthetic_label_noise": 0.3}],
    "synthetic_word_signal": [{"synthetic_word_signal": 0.5}],
    "synthetic_seed": [{"synthetic_seed": 1}],
}
# What has tests of its own: other data sets, how a run is watched, which
# epoch is chosen, and what is promised to change nothing on CPU.
ELSEWHERE = {
    *PLACES,
    *("dataset", "columns", "missing_features", "reddit_format", "link_ends"),
    *("reddit_like_scale", "device", "distribute", "prefetch"),
    *("block_entries", "select", "patience", "evaluate_test", "test_curve"),
}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Losses of a run with some changes to the base."""

    @functools.cache
    def of(text):
        folder = tmp_path_factory.mktemp("run")
        changes = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in json.loads(text).items()
        }
        config = Config(**{**BASE, **changes, "output_dir": str(folder)})
        training.train(config)
        with open(folder / "history.csv", newline="") as file:
            return [
                {key: row[key] for key in row if key != "seconds"}
                for row in csv.DictReader(file)
            ]

    return lambda changes: of(json.dumps(changes, sort_keys=True))


def test_every_setting_is_tried_here_or_has_tests_of_its_own():
    names = {each.name for each in dataclasses.fields(Config)}
    assert names == CHANGES.keys() | ELSEWHERE
    assert not CHANGES.keys() & ELSEWHERE


@pytest.mark.parametrize(
    "name, changes",
    [(name, changes) for name in CHANGES for changes in CHANGES[name]],
)
def test_setting_changes_the_numbers(numbers, name, changes):
    without = {key: changes[key] for key in changes if key != name}
    assert numbers(changes) != numbers(without)
