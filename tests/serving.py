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


def answer_of(model, signature, inputs):
    """Arrays by output name, from arrays or lists by input name."""
    function = model.signatures[signature]
    _, specs = function.structured_input_signature
    if inputs.keys() != specs.keys():
        raise ValueError(
            f"expected inputs {sorted(specs)}, received {sorted(inputs)}"
        )
    tensors = {
        name: tf.constant(inputs[name], spec.dtype)
        for name, spec in specs.items()
    }
    return {name: value.numpy() for name, value in function(**tensors).items()}


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, model):
        self._model = model

    def Predict(self, request, context):
        name = request.model_spec.signature_name or "serving_default"
        inputs = {
            key: tf.make_ndarray(value) for key, value in request.inputs.items()
        }
        try:
            answer = answer_of(self._model, name, inputs)
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
    signature = request.get("signature_name", "serving_default")
    if ("instances" in request) == ("inputs" in request):
        raise ValueError("expected instances, or inputs")
    if "inputs" in request:
        inputs = _named(model, signature, request["inputs"])
        answer = _as_json(answer_of(model, signature, inputs))
        single = len(answer) == 1
        return {"outputs": next(iter(answer.values())) if single else answer}
    rows = request["instances"]
    if rows and isinstance(rows[0], dict):
        inputs = {name: [row[name] for row in rows] for name in rows[0]}
    else:
        inputs = _named(model, signature, rows)
    answer = _as_json(answer_of(model, signature, inputs))
    if len(answer) == 1:
        return {"predictions": next(iter(answer.values()))}
    return {
        "predictions": [
            dict(zip(answer, values, strict=True))
            for values in zip(*answer.values(), strict=True)
        ]
    }


def _named(model, signature, inputs):
    """The name of a single input may be left out."""
    _, specs = model.signatures[signature].structured_input_signature
    return inputs if isinstance(inputs, dict) else {next(iter(specs)): inputs}


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
