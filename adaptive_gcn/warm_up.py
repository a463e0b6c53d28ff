"""Requests that TensorFlow Serving replays when it loads a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

FILE = Path("assets.extra") / "tf_serving_warmup_requests"


def write(folder: Path, name: str, requests: dict[str, dict[str, Any]]) -> None:
    """Write a request for each signature into the folder of a SavedModel.

    Args:
        folder: The folder of the SavedModel.
        name: What the model is served as.
        requests: Inputs by name, by signature.
    """
    path = folder / FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, inputs in requests.items():
            file.write(_log(name, signature, inputs).SerializeToString())


def _log(name: str, signature: str, inputs: dict[str, Any]) -> Any:
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return log
