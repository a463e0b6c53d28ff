"""Losses and scores, by hand."""

import numpy as np
import pytest

from adaptive_gcn import targets

# Six nodes, four labels.
ROWS = np.array(
    [
        [1, 0, 1, 0],
        [0, 0, 0, 0],
        [1, 1, 1, 1],
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 1, 0],
    ]
)


def test_sigmoid_loss_is_the_mean_over_nodes_and_labels():
    logits = np.linspace(-2, 2, 24, dtype=np.float32).reshape(6, 4)
    p = 1 / (1 + np.exp(-logits.astype(float)))
    expected = -np.mean(ROWS * np.log(p) + (1 - ROWS) * np.log(1 - p))
    assert float(targets.class_loss(ROWS, logits)) == pytest.approx(
        expected, rel=1e-6
    )


def test_softmax_loss_is_that_of_classes():
    logits = np.log(np.array([[1, 3], [2, 2]], np.float32))
    loss = float(targets.class_loss(np.array([1, 0]), logits))
    assert loss == pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2, rel=1e-6)


def test_micro_and_macro_f1_of_several_labels():
    predicted = ROWS.copy()
    predicted[0] = [1, 1, 0, 0]  # One wrong, one missed, of 10 right ones.
    logits = np.where(predicted, 0.5, -3).astype(np.float32)
    micro, macro = targets.f1_scores(ROWS, logits)
    assert micro == pytest.approx(2 * 8 / (2 * 8 + 1 + 1))
    assert macro == pytest.approx((1 + 4 / 5 + 4 / 5 + 1) / 4)
    assert targets.accuracy(ROWS, logits) == micro


def test_accuracy_of_classes():
    logits = np.array([[1, 2], [3, 0], [0, 1]], np.float32)
    assert targets.accuracy(np.array([1, 1, 1]), logits) == pytest.approx(2 / 3)


def pairs_won(truth, score):
    won = [
        (a > b) + 0.5 * (a == b)
        for a in score[truth == 1]
        for b in score[truth == 0]
    ]
    return np.mean(won)


def test_roc_auc_is_the_share_of_pairs_in_the_right_order():
    labels = np.array([0, 1, 0, 1, 1, 0])
    logits = np.array(
        [[0, 1], [0, 2], [1, 0], [0, 1], [2, 0], [0, 1]], np.float32
    )
    expected = pairs_won(labels, logits[:, 1] - logits[:, 0])
    assert targets.roc_auc(labels, logits) == pytest.approx(expected)


def test_roc_auc_of_labels_is_their_mean_where_it_is_defined():
    logits = np.random.default_rng(0).normal(size=(6, 4)).round(1)
    rows = ROWS.copy()
    rows[:, 3] = 0  # No node has it: left out.
    areas = [pairs_won(rows[:, j], logits[:, j]) for j in range(3)]
    assert targets.roc_auc(rows, logits) == pytest.approx(np.mean(areas))


@pytest.mark.parametrize(
    "labels, width", [([0, 1, 2], 3), ([0, 0, 0], 2), ([[0], [0], [0]], 1)]
)
def test_no_roc_auc(labels, width):
    logits = np.ones((3, width), np.float32)
    assert targets.roc_auc(np.array(labels), logits) is None
