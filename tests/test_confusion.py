"""The confusion matrix and the table of classes, by hand."""

import numpy as np

from adaptive_gcn import confusion

LABELS = np.array([0, 0, 0, 1, 1, 2])
PREDICTED = np.array([0, 0, 1, 1, 0, 0])
MATRIX = [[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_rows_are_true_classes_and_columns_predicted_ones():
    matrix = confusion.confusion_matrix(LABELS, PREDICTED, 4)
    assert matrix.tolist() == MATRIX


def test_each_of_several_labels_has_its_own_matrix_and_line():
    labels = np.array([[1, 0], [1, 1], [0, 0], [1, 0]])
    predicted = np.array([[1, 1], [0, 1], [1, 0], [1, 0]]) > 0
    matrices = confusion.label_matrices(labels, predicted)
    assert matrices.tolist() == [[[0, 1], [1, 2]], [[2, 1], [0, 1]]]
    first, second = confusion.class_table(matrices, ["a", "b"])
    assert first == {
        "class": "a",
        "nodes": 3,
        "precision": 2 / 3,
        "recall": 2 / 3,
        "f1": 2 / 3,
    }
    assert [second[key] for key in ("nodes", "precision", "recall")] == [
        1,
        0.5,
        1,
    ]


def test_table_of_classes():
    table = confusion.class_table(np.array(MATRIX), ["a", "b", "c", "none"])
    assert [row["class"] for row in table] == ["a", "b", "c", "none"]
    assert [row["nodes"] for row in table] == [3, 2, 1, 0]
    assert [row["precision"] for row in table] == [0.5, 0.5, 0, 0]
    assert [row["recall"] for row in table] == [2 / 3, 0.5, 0, 0]
    assert [row["f1"] for row in table] == [4 / 7, 0.5, 0, 0]


def test_text_has_a_line_for_each_class():
    table = confusion.class_table(np.array(MATRIX), ["a", "b", "c", "none"])
    head, first, *rest = confusion.as_text(table).splitlines()
    assert head.split() == ["class", "nodes", "precision", "recall", "f1"]
    assert first.split() == ["a", "3", "0.5000", "0.6667", "0.5714"]
    assert len(rest) == 3
