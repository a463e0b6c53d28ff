"""A small stand-in for TensorFlow Serving around a loaded SavedModel.

Speaks its gRPC service with the official stubs and its REST format, for one
model. For tests: the real server is not in any package registry.
"""

import concurrent.futures
import contextlib
import http.server
import json
import threading

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

# What the server takes for a type, of JSON: no rounding, no 0 for false.
JSON_TYPES = {
    tf.float32: (int, float),
    tf.int64: (int,),
    tf.bool: (bool,),
    tf.string: (str,),
}


def specs_of(model, signature):
    """Shape and type of each input of a signature, by name."""
    _, specs = model.signatures[signature].structured_input_signature
    return specs


def answer_of(model, signature, tensors):
    """Arrays by output name, from tensors by input name."""
    specs = specs_of(model, signature)
    if tensors.keys() != specs.keys():
        raise ValueError(
            f"expected inputs {sorted(specs)}, received {sorted(tensors)}"
        )
    for name, spec in specs.items():
        if tensors[name].dtype != spec.dtype:
            raise ValueError(
                f"{name}: expected {spec.dtype}, received {tensors[name].dtype}"
            )
    answer = model.signatures[signature](**tensors)
    return {name: value.numpy() for name, value in answer.items()}


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, model):
        self._model = model

    def Predict(self, request, context):
        name = request.model_spec.signature_name or "serving_default"
        if name not in self._model.signatures:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f'Serving signature key "{name}" not found.',
            )
        tensors = {
            key: tf.constant(tf.make_ndarray(value))
            for key, value in request.inputs.items()
        }
        try:
            answer = answer_of(self._model, name, tensors)
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        response = predict_pb2.PredictResponse()
        for key, value in answer.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response


@contextlib.contextmanager
def grpc_server(model):
    """The address of a server that runs within the context."""
    pool = concurrent.futures.ThreadPoolExecutor(2)
    server = grpc.server(pool)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Service(model), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def rest_answer(model, body):
    """The answer to the JSON body of POST /v1/models/<name>:predict."""
    request = json.loads(body)
    if not isinstance(request, dict):
        raise ValueError("expected a JSON object")
    signature = request.get("signature_name", "serving_default")
    if signature not in model.signatures:
        raise ValueError(f"signature {signature}: not found")
    if ("instances" in request) == ("inputs" in request):
        raise ValueError("expected instances, or inputs")
    specs = specs_of(model, signature)
    in_rows = "instances" in request
    if in_rows:
        inputs = _columns(specs, request["instances"])
    else:
        inputs = _named(specs, request["inputs"])
    tensors = {
        name: _tensor(name, inputs[name], specs[name].dtype) for name in inputs
    }
    answer = _as_json(answer_of(model, signature, tensors))
    single = next(iter(answer.values())) if len(answer) == 1 else None
    if not in_rows:
        return {"outputs": answer if single is None else single}
    if single is not None:
        return {"predictions": single}
    return {
        "predictions": [
            dict(zip(answer, values, strict=True))
            for values in zip(*answer.values(), strict=True)
        ]
    }


def _columns(specs, rows):
    """Inputs by name, each with the rows stacked."""
    if not isinstance(rows, list) or not rows:
        raise ValueError("instances: expected a list that is not empty")
    if not isinstance(rows[0], dict):
        return _named(specs, rows)
    for row in rows:
        if not isinstance(row, dict) or row.keys() != specs.keys():
            raise ValueError(f"instances: expected keys {sorted(specs)} in all")
    return {name: [row[name] for row in rows] for name in specs}


def _named(specs, inputs):
    """The name of a single input may be left out; other names are ignored."""
    if not isinstance(inputs, dict):
        if len(specs) > 1:
            raise ValueError(f"expected an object with {sorted(specs)}")
        return {next(iter(specs)): inputs}
    missing = sorted(specs.keys() - inputs.keys())
    if missing:
        raise ValueError(f"missing inputs {missing}")
    return {name: inputs[name] for name in specs}


def _tensor(name, value, dtype):
    shape = np.shape(value)  # ValueError if its rows differ in length.
    for leaf in np.array(value, object).ravel():
        if type(leaf) not in JSON_TYPES[dtype]:
            raise ValueError(f"{name}: {leaf!r} is not of type {dtype.name}")
    return tf.constant(value, dtype, shape)


def _as_json(answer):
    return {name: _texts(value).tolist() for name, value in answer.items()}


def _texts(value):
    return np.char.decode(value.astype("S")) if value.dtype == object else value


@contextlib.contextmanager
def rest_server(model, name):
    """The address of a server that runs within the context."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                if self.path != f"/v1/models/{name}:predict":
                    raise ValueError(f"{self.path}: no such model")
                status, answer = 200, rest_answer(model, body)
            except (tf.errors.InvalidArgumentError, ValueError) as error:
                status, answer = 400, {"error": str(error)}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
