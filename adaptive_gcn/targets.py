"""Losses and scores for classes, one a node, and for several labels a node.

Which of the two it is shows in the labels: [n] integers, or [n, n_classes] of
0 and 1.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy import stats


def class_loss(labels: Any, logits: Any) -> tf.Tensor:
    """Mean cross-entropy, of the softmax or of one sigmoid for each label.

    Args:
        labels: [n] integers, or [n, n_classes] of 0 and 1.
        logits: [n, n_classes] float32.
    """
    if len(labels.shape) == 2:
        return tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(
                tf.cast(labels, logits.dtype), logits
            )
        )
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    )


def accuracy(
    labels: npt.NDArray[np.int64], logits: npt.NDArray[np.float32]
) -> float:
    """Fraction of nodes classified right; micro-F1 if they have several labels.

    A label is predicted where its logit is above 0.
    """
    if labels.ndim == 2:
        return _f1("micro", *_decisions(labels, logits))
    return float(np.mean(np.argmax(logits, axis=1) == labels))


def f1_scores(
    labels: npt.NDArray[np.int64], logits: npt.NDArray[np.float32]
) -> tuple[float, float]:
    """F1 over all decisions, and the mean of the classes' F1."""
    decisions = _decisions(labels, logits)
    return _f1("micro", *decisions), _f1("macro", *decisions)


def _decisions(labels: Any, logits: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """True and predicted, [n, n_classes] of 0 and 1."""
    if labels.ndim == 2:
        return tf.cast(labels, tf.float32), tf.cast(logits > 0, tf.float32)
    n_classes = logits.shape[1]
    predicted = tf.one_hot(tf.argmax(logits, axis=1), n_classes)
    return tf.one_hot(labels, n_classes), predicted


def _f1(average: str, truth: tf.Tensor, predicted: tf.Tensor) -> float:
    metric = keras.metrics.F1Score(average, threshold=0.5)
    return float(metric(truth, predicted))


def roc_auc(
    labels: npt.NDArray[np.int64], logits: npt.NDArray[np.float32]
) -> float | None:
    """Area under the ROC curve, of two classes or of several labels.

    Of several labels it is the mean over those that some nodes have and some
    lack. None where there is no such label, or there are more than two
    classes.
    """
    if labels.ndim == 2:
        pairs = zip(labels.T, logits.T, strict=True)
    elif logits.shape[1] == 2:
        pairs = zip([labels], [logits[:, 1] - logits[:, 0]], strict=True)
    else:
        return None
    areas = [
        _area(truth == 1, score)
        for truth, score in pairs
        if 0 < np.count_nonzero(truth == 1) < len(truth)
    ]
    return float(np.mean(areas)) if areas else None


def _area(truth: npt.NDArray[np.bool_], score: npt.NDArray[Any]) -> float:
    """P(score of a true one > score of a false one), ties count half."""
    n_true = np.count_nonzero(truth)
    n_false = len(truth) - n_true
    ranks = stats.rankdata(score)[truth].sum()
    return float((ranks - n_true * (n_true + 1) / 2) / (n_true * n_false))
