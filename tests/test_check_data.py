"""--mode=check_data, the splits that are made, and runs on one's own graph."""

import csv
import json
import re

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver
from scipy import sparse

from adaptive_gcn import check_data, loading, main, training
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.datasets import splits, store
from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import Graph
from adaptive_gcn.split_rule import SplitRule


def write_pair(folder, n_nodes=60, multi_label=False, seed=0):
    """A CSV pair: a ring with chords, ids with leading zeros, few labels."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    ids = [f"{i:04d}" for i in range(n_nodes)]
    edges = ["source,target,weight"]
    for step in (1, 2, 7):
        edges += [
            f"{ids[i]},{ids[(i + step) % n_nodes]},{1 / step}"
            for i in range(n_nodes)
        ]
    (folder / "edges.csv").write_text("\n".join(edges))
    names = ["label:a", "label:b", "label:c"] if multi_label else ["label"]
    nodes = [",".join(["id", *names, "x", "y"])]
    for i, each in enumerate(ids):
        kind = i * 3 // n_nodes
        words = ["red", "green", "blue"][kind : kind + 1]
        if multi_label:
            words = ["1" if kind <= j else "0" for j in range(3)]
        values = rng.normal([kind, -kind], 0.1).round(3)
        nodes.append(",".join([each, *words, *map(str, values)]))
    (folder / "nodes.csv").write_text("\n".join(nodes))
    return folder


SETTINGS = {
    "split": "random:0.6/0.2/0.2",
    "hidden_units": (8,),
    "samples_per_layer": (16,),
    "batch_size": 16,
    "epochs": 30,
    "learning_rate": 0.05,
    "features": "standard",
}


def config_of(place, **changes):
    return Config(**{**SETTINGS, "dataset_dir": str(place), **changes})


def command(*words):
    with flagsaver.flagsaver():
        main.main(main.parse_flags(["main", *words]))


# Flags.


@pytest.mark.parametrize("mode", ["train", "evaluate"])
def test_a_folder_without_a_name_is_refused(mode):
    with pytest.raises(flags.Error, match="--dataset_dir= names no folder"):
        command("--dataset_dir=", f"--mode={mode}", "--output_dir=x")


def test_a_folder_implies_its_data_set_and_split():
    config = Config(dataset_dir="mine")
    assert (config.dataset, config.split) == ("folder", "given")
    assert Config(dataset_dir="mine", split="given:3").split == "given:3"
    assert Config().split == "fastgcn"
    assert Config(split="PLANETOID", dataset="cora").split == "planetoid"


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"dataset": "folder"}, "expected --dataset_dir=FOLDER"),
        ({"dataset": "cora", "dataset_dir": "x"}, "with --dataset=folder"),
        ({"split": "given:1"}, "--dataset=synthetic has no such split"),
        ({"dataset_dir": "x", "split": "planetoid"}, "has no such split"),
        ({"split": "random"}, "--split=random: expected fastgcn"),
        ({"split": "random:0.6/0.2"}, "random:A/B/C"),
        ({"split": "random:0.6/0.3/0.2"}, "random:A/B/C"),
        ({"split": "random:0/0.5/0.5"}, "random:A/B/C"),
        ({"split": "random:nan/0.5/0.5"}, "random:A/B/C"),
        ({"split": "random:a/b/c"}, "random:A/B/C"),
        ({"split": "given:-1"}, "given:K"),
        ({"split": "core"}, "--split=core: expected"),
        ({"split": ""}, "--split=: expected"),
    ],
)
def test_splits_that_cannot_be_are_refused_by_name(settings, message):
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


# Random splits.


def test_each_class_is_cut_by_the_same_fractions():
    labels = np.repeat([0, 1, 2, 3], [50, 10, 5, 1])
    nodes = np.arange(66) * 2
    parts = splits.random_split(nodes, labels, (0.6, 0.2, 0.2), seed=0)
    counts = [np.bincount(labels[part // 2], minlength=4) for part in parts]
    assert [each.tolist() for each in counts] == [
        [30, 6, 3, 1],
        [10, 2, 1, 0],
        [10, 2, 1, 0],
    ]
    assert sorted(np.concatenate(parts)) == nodes.tolist()


def test_a_split_depends_on_its_seed_only():
    labels = np.arange(40) % 2
    first, again, other = (
        splits.random_split(np.arange(40), labels, (0.5, 0.25, 0.25), seed)
        for seed in (1, 1, 2)
    )
    for one, same, different in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, same)
        assert one.tolist() != different.tolist()


def test_unlabelled_nodes_are_in_no_random_split():
    graph = Graph.from_edges([[0, 1]], np.eye(4), [0, -1, 1, 0], [0])
    rule = SplitRule.parse("random:0.5/0.5/0")
    assert 1 not in np.flatnonzero(
        splits.with_rule(graph, rule, 0).split_codes()
    )


def test_a_random_split_of_a_built_in_graph():
    config = Config(synthetic_nodes=200, split="random:0.5/0.2/0.1")
    graph = loading.load(config)
    assert len(graph.train_nodes) in range(97, 104)
    assert len(graph.test_nodes) in range(17, 24)


# The check.


def test_a_good_graph_is_described(tmp_path):
    text, is_good = check_data.report(config_of(write_pair(tmp_path / "mine")))
    assert is_good
    for part in (
        "  nodes: 60\n",
        "  undirected edges: 180\n",
        "  examples by class: blue 12, green 12, red 12\n",
        "  weights: 0.142857 to 1\n",
        "  memory: about 0.6 GiB",
        "notice: mine: directed input, made symmetric: 180 entries",
    ):
        assert part in text
    assert text.endswith("training would take it")


def test_a_class_without_training_example_is_announced(tmp_path):
    write_pair(tmp_path)
    path = tmp_path / "nodes.csv"
    lines = path.read_text().split("\n")
    parts = {"red": "train", "green": "train", "blue": "test"}
    lines = [f"{lines[0]},split"] + [
        f"{line},{parts[line.split(',')[1]]}" for line in lines[1:]
    ]
    lines[1] = lines[1].replace("train", "val")
    path.write_text("\n".join(lines))
    text, is_good = check_data.report(config_of(tmp_path, split="given"))
    assert is_good
    assert "no training example of class blue" in text


def break_(folder):
    path = folder / "edges.csv"
    path.write_text(path.read_text() + "\n0001,nobody,1\n0002,0003,-4\n")


def test_check_and_training_refuse_with_the_same_words(tmp_path, capsys):
    folder = write_pair(tmp_path / "mine")
    break_(folder)
    words = [f"--dataset_dir={folder}", "--split=random:0.6/0.2/0.2"]
    with pytest.raises(SystemExit) as error:
        command("--mode=check_data", *words)
    assert error.value.code == 1
    lines = capsys.readouterr().out.strip().split("\n")
    faults = [line for line in lines if line.startswith("fault: ")]
    assert len(faults) == 2
    assert "edges.csv line 182: 'nobody'" in faults[0]
    assert "edges.csv line 183: -4" in faults[1]
    assert lines[-1] == "training would refuse it: 2 kind(s) of fault"
    run = tmp_path / "run"
    with pytest.raises(SystemExit) as error:
        command(*words, f"--output_dir={run}")
    message = str(error.value.code)
    assert message.startswith("FaultyDataError: " + faults[0][7:])
    assert message.endswith(
        "(1 more kind of fault: --mode=check_data lists all)"
    )
    assert "\n" not in message
    assert list(run.iterdir()) == []


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"split": "random:0.01/0.9/0"}, "0 training and"),
        ({"split": "random:0.9/0.1/0", "test_curve": True}, "no test nodes"),
        ({"dataset_dir": "/nowhere"}, "no such folder or file"),
    ],
)
def test_what_else_training_would_refuse(tmp_path, changes, message):
    config = config_of(write_pair(tmp_path), **changes)
    text, is_good = check_data.report(config)
    assert not is_good and message in text


def test_features_that_would_become_too_large(tmp_path, monkeypatch):
    write_pair(tmp_path)
    sparse.save_npz(tmp_path / "features.npz", sparse.eye_array(60).tocsr())
    monkeypatch.setattr("adaptive_gcn.features.DENSE_LIMIT_BYTES", 100)
    text, is_good = check_data.report(config_of(tmp_path))
    assert not is_good and "makes sparse features dense" in text
    assert check_data.report(config_of(tmp_path, features="l2"))[1]


def test_other_data_sets_can_be_checked_too(capsys):
    command("--mode=check_data", "--synthetic_nodes=200")
    assert "training would take it" in capsys.readouterr().out


# Runs.


def test_a_pair_of_csv_files_is_trained_evaluated_and_converted(
    tmp_path, capsys
):
    folder = write_pair(tmp_path / "mine")
    run = tmp_path / "run"
    record = training.train(config_of(folder, output_dir=str(run)))
    assert record["test_accuracy"] > 0.8
    assert record["graph"]["name"] == "mine"
    assert not record["multi_label"] and record["roc_auc"] is None
    command("--mode=evaluate", f"--output_dir={run}")
    found = json.loads(capsys.readouterr().out)
    assert found["test"]["accuracy"] == record["test_accuracy"]
    kept = tmp_path / "store"
    command(
        "--mode=convert",
        f"--dataset_dir={folder}",
        "--split=random:0.6/0.2/0.2",
        f"--output_dir={kept}",
    )
    graph = store.read_store(kept)
    assert graph.node_ids[7] == "0007"
    assert np.float32(1 / 7) in graph.adjacency.data
    again = training.train(
        config_of(kept, split="given", output_dir=str(tmp_path / "again"))
    )
    assert again["test_accuracy"] == record["test_accuracy"]


def test_own_graph_is_predicted_from_its_run_wherever_it_is(tmp_path):
    folder = write_pair(tmp_path / "mine")
    ids = {f"{i:04d}": f'"Müller, ""{i}"" 中"' for i in range(60)}
    for name in ("nodes.csv", "edges.csv"):
        text = (folder / name).read_text()
        words = re.sub(r"\b\d{4}\b", lambda word: ids[word[0]], text)
        (folder / name).write_text(words, "utf-8")
    run = str(tmp_path / "run")
    command(
        f"--dataset_dir={folder}",
        f"--output_dir={run}",
        "--split=random:0.6/0.2/0.2",
        "--epochs=2",
    )
    words = f"--output_dir={run}", "--overwrite"
    command("--mode=predict", *words)
    folder.rename(tmp_path / "moved")
    place = f"--dataset_dir={tmp_path / 'moved'}"
    command("--mode=predict", *words, place, f"--predictions={tmp_path}/x.csv")
    command("--mode=evaluate", *words, place)
    command("--mode=export", *words, place)
    with open(tmp_path / "x.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [
        f'Müller, "{i}" 中' for i in range(60)
    ]
    before = tmp_path / "run" / "predictions.csv"
    assert before.read_bytes() == (tmp_path / "x.csv").read_bytes()
    with pytest.raises(SystemExit, match="mine: there is no such folder"):
        command("--mode=evaluate", *words)


def test_several_labels_a_node_are_learnt(tmp_path):
    folder = write_pair(tmp_path / "mine", multi_label=True)
    settings = config_of(
        folder, output_dir=str(tmp_path / "run"), select="val_accuracy"
    )
    record = training.train(settings)
    assert record["multi_label"]
    assert record["test_accuracy"] == record["micro_f1"] > 0.8
    assert record["roc_auc"] > 0.8
    assert "test micro-F1 " in training.describe(record)
    assert "ROC-AUC" in training.describe(record)
    text, _ = check_data.report(settings)
    assert "  labels: several a node\n" in text
    assert ", c 36\n" in text


def test_minus_1_and_minus_100_train_alike(tmp_path):
    losses = []
    for number, unknown in enumerate(("", "-1", "-100")):
        folder = write_pair(tmp_path / str(number) / "mine")
        path = folder / "nodes.csv"
        path.write_text(path.read_text().replace("0007,red", f"0007,{unknown}"))
        config = config_of(
            folder, epochs=2, output_dir=str(tmp_path / f"run{number}")
        )
        losses.append(training.train(config)["val_loss"])
    assert losses[0] == losses[1] == losses[2]


def of_type(kind):
    """A matrix of 0 and 1 with rows of zeros, in a type or form."""
    matrix = (np.arange(180).reshape(60, 3) % 7 < 2).astype(np.int8)
    matrix[::5] = 0
    if kind == "stored zeros":
        stored = sparse.csr_array(matrix + np.int8(2))
        stored.data -= 2
        return stored
    return sparse.csr_array(matrix) if kind == "csr" else matrix.astype(kind)


@pytest.mark.slow
def test_features_of_any_type_train_alike(tmp_path):
    losses = {}
    for kind in ("f8", "i4", "?", "f2", "csr", "stored zeros"):
        folder = write_pair(tmp_path / kind / "mine")
        features = of_type(kind)
        nodes = (folder / "nodes.csv").read_text().split("\n")
        nodes = [",".join(line.split(",")[:2]) for line in nodes]
        (folder / "nodes.csv").write_text("\n".join(nodes))
        if sparse.issparse(features):
            sparse.save_npz(folder / "features.npz", features)
        else:
            np.save(folder / "features.npy", features)
        place = str(tmp_path / kind / "run")
        config = config_of(folder, epochs=2, features="l2", output_dir=place)
        losses[kind] = training.train(config)["val_loss"]
    for kind, loss in losses.items():
        assert loss == pytest.approx(losses["f8"], rel=1e-6), kind


def test_formats_of_reddit_have_no_names_of_classes(tmp_path, caplog):
    folder = write_pair(tmp_path / "mine")
    path = folder / "edges.csv"
    lines = [each.rsplit(",", 1)[0] for each in path.read_text().split("\n")]
    path.write_text("\n".join(lines))
    config = config_of(
        folder, mode="convert", to="graphsage", output_dir=str(tmp_path / "out")
    )
    loading.convert(config)
    assert "no names of classes: 0 is blue, 1 is green, 2 is" in caplog.text
    back = config_of(tmp_path / "out", split="given")
    first, second = loading.load(config), loading.load(back)
    assert second.node_ids.tolist() == first.node_ids.tolist()
    assert second.labels.tolist() == first.labels.tolist()
    assert (second.adjacency != first.adjacency).nnz == 0


def test_formats_of_reddit_have_no_several_labels(tmp_path):
    folder = write_pair(tmp_path / "mine", multi_label=True)
    path = folder / "edges.csv"
    path.write_text(path.read_text().replace(",0.5", ",1"))
    config = config_of(
        folder, mode="convert", to="dgl", output_dir=str(tmp_path / "out")
    )
    with pytest.raises(DataError, match="expected one class a node"):
        loading.convert(config)
