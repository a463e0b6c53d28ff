"""Exported models outside of this package: other programs, gRPC, REST."""

import json
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from adaptive_gcn import export, training
from adaptive_gcn.config import Config
from adaptive_gcn.graph import Graph
from tests import serving
from tests.helpers import ring_graph

TESTS = pathlib.Path(__file__).parent
IDS = ["node 3", "ä", "node 17"]
PLACES = [3, 4, 17]
COLUMNS = ("probabilities", "class", "class_name")


def named_graph():
    plain = ring_graph()
    names = [f"node {i}" for i in range(30)]
    names[4] = "ä"
    edges = np.stack(plain.adjacency.nonzero(), axis=1)
    return Graph.from_edges(
        edges,
        plain.features,
        plain.labels,
        plain.train_nodes,
        plain.val_nodes,
        plain.test_nodes,
        class_names=["red", "green", "blue"],
        node_ids=names,
    )


def save(folder, graph):
    """A SavedModel of a network, and its probabilities of all nodes."""
    config = Config(features="raw", hidden_units=(5,))
    network = training.build_model(config, graph)
    served = export.build(config, graph, network, folder)
    signatures = export.signatures_of(served, config)
    target = folder / "model" / "1"
    target.mkdir(parents=True)
    export.save(served, signatures, target, graph)
    full = training.full_propagation(config, graph)
    logits = full.logits(network, np.arange(graph.n_nodes))
    return target, tf.nn.softmax(logits).numpy()


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    return save(tmp_path_factory.mktemp("named"), named_graph())


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    return save(tmp_path_factory.mktemp("numbered"), ring_graph())


@pytest.fixture(scope="module")
def model(named):
    return tf.saved_model.load(str(named[0]))


def output_of(*words, cwd):
    result = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, cwd=cwd, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


PLAIN = """
import json, sys
sys.modules["adaptive_gcn"] = sys.modules["keras"] = None
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
ids = tf.constant(json.loads(sys.argv[2]))
answer = model.signatures["serving_default"](node_ids=ids)
print(json.dumps(answer["probabilities"].numpy().tolist()))
print(b" ".join(answer["class_name"].numpy()).decode())
hidden = model.signatures["embed"](node_ids=ids)["embedding"]
print(hidden.shape)
loaded = [name for name, module in sys.modules.items() if module is not None]
assert not [n for n in loaded if n.split(".")[0] in ("adaptive_gcn", "keras")]
"""


def test_plain_tensorflow_process_without_this_package(named, tmp_path):
    folder, expected = named
    words = (sys.executable, "-I", "-c", PLAIN, folder, json.dumps(IDS))
    first, second, third = output_of(*words, cwd=tmp_path).splitlines()
    rows = expected[PLACES]
    np.testing.assert_allclose(json.loads(first), rows, atol=1e-5)
    names = np.array(["red", "green", "blue"])
    assert second.split() == names[rows.argmax(1)].tolist()
    assert third == "(3, 5)"


@pytest.fixture(scope="module")
def loader(tmp_path_factory):
    """The C++ program, compiled against the library in the wheel."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path_factory.mktemp("loader") / "load_saved_model"
    output_of(
        compiler,
        TESTS / "load_saved_model.cc",
        "-o",
        program,
        *tf.sysconfig.get_compile_flags(),
        "-Wl,--no-as-needed",  # The kernels register themselves.
        *tf.sysconfig.get_link_flags(),
        "-l:libtensorflow_cc.so.2",
        f"-Wl,-rpath,{tf.sysconfig.get_lib()}",
        cwd=program.parent,
    )
    return program


@pytest.mark.slow
def test_loader_of_tensorflow_serving_in_cpp(loader, numbered, tmp_path):
    folder, expected = numbered
    words = (loader, folder, 7, 0, 29, 7)
    *rows, empty, unknown, rank = output_of(*words, cwd=tmp_path).splitlines()
    found = [[float(word) for word in row.split()] for row in rows]
    np.testing.assert_allclose(found, expected[[7, 0, 29, 7]], atol=1e-5)
    invalid = tf.errors.INVALID_ARGUMENT
    assert empty == "empty: 0 0"
    assert unknown == f"unknown: {invalid} -1"
    assert rank == f"rank: {invalid} -1"


SAVED_MODEL_CLI = (
    sys.executable,
    "-c",
    "from tensorflow.python.tools.saved_model_cli import main; main()",
)


def test_saved_model_cli_shows_and_runs_it(named, tmp_path):
    folder, expected = named
    where = ("--dir", folder, "--tag_set", "serve")
    shown = output_of(*SAVED_MODEL_CLI, "show", *where, cwd=tmp_path)
    for name in ("serving_default", "embed", "inductive", "subgraph"):
        assert f'"{name}"' in shown
    which = ("--signature_def", "embed")
    shown = output_of(*SAVED_MODEL_CLI, "show", *where, *which, cwd=tmp_path)
    assert "inputs['node_ids']" in shown and "shape: (-1)" in shown
    assert "outputs['embedding']" in shown and "shape: (-1, 5)" in shown
    output_of(
        *SAVED_MODEL_CLI,
        "run",
        *where,
        *("--signature_def", "serving_default"),
        *("--input_exprs", f"node_ids={IDS}"),
        *("--outdir", tmp_path),
        cwd=tmp_path,
    )
    found = np.load(tmp_path / "probabilities.npy")
    np.testing.assert_allclose(found, expected[PLACES], atol=1e-5)


@pytest.fixture(scope="module")
def stub(model):
    with serving.grpc_server(model) as address:
        with grpc.insecure_channel(address) as channel:
            yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


def asked(stub, signature, **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "model"
    request.model_spec.signature_name = signature
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    response = stub.Predict(request, timeout=60)
    return {key: tf.make_ndarray(v) for key, v in response.outputs.items()}


def test_grpc_answers_every_signature(stub, named):
    _, expected = named
    graph = named_graph()
    answer = asked(stub, "serving_default", node_ids=IDS)
    np.testing.assert_allclose(
        answer["probabilities"], expected[PLACES], atol=1e-5
    )
    assert asked(stub, "embed", node_ids=IDS)["embedding"].shape == (3, 5)
    edges = np.stack(graph.adjacency.nonzero(), axis=1).astype(np.int64)
    answer = asked(stub, "subgraph", features=graph.features, edges=edges)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    places = np.stack(np.nonzero(graph.features), axis=1).astype(np.int64)
    answer = asked(
        stub,
        "subgraph_sparse",
        feature_indices=places,
        feature_values=graph.features[tuple(places.T)],
        n_nodes=np.int64(30),
        edges=edges,
    )
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    links = {
        "features": graph.features[:1],
        "neighbor_ids": [["ä", ""]],
        "neighbor_mask": [[True, False]],
    }
    first = asked(stub, "inductive", **links)["probabilities"]
    weights = np.ones((1, 2), np.float32)
    second = asked(
        stub, "inductive_weighted", **links, neighbor_weights=weights
    )
    np.testing.assert_array_equal(first, second["probabilities"])


ROW = np.zeros((1, 6), np.float32)
NAN = np.full((1, 6), np.nan, np.float32)
LOOP = np.zeros((1, 2), np.int64)
NEIGHBOR = {"neighbor_ids": [["ä"]], "neighbor_mask": [[True]]}
WRONG = {
    "unknown id": ("serving_default", {"node_ids": ["node 3", "nobody"]}),
    "unknown id to embed": ("embed", {"node_ids": ["nobody"]}),
    "wrong rank": ("serving_default", {"node_ids": [["node 3"]]}),
    "wrong type": ("serving_default", {"node_ids": np.array([3])}),
    "wrong name": ("serving_default", {"nodes": ["node 3"]}),
    "missing input": ("inductive", {"features": ROW}),
    "unknown neighbour": (
        "inductive",
        {**NEIGHBOR, "features": ROW, "neighbor_ids": [["nobody"]]},
    ),
    "NaN": ("inductive", {**NEIGHBOR, "features": NAN}),
    "narrow features": ("inductive", {**NEIGHBOR, "features": ROW[:, 1:]}),
    "rows that differ": (
        "inductive",
        {**NEIGHBOR, "features": np.concatenate([ROW, ROW])},
    ),
    "NaN in a subgraph": ("subgraph", {"features": NAN, "edges": LOOP}),
    "features of 64 bits": (
        "inductive",
        {**NEIGHBOR, "features": ROW.astype(np.float64)},
    ),
    "features that are integers": (
        "subgraph",
        {"features": ROW.astype(np.int64), "edges": LOOP},
    ),
    "mask of 0 and 1": (
        "inductive",
        {**NEIGHBOR, "features": ROW, "neighbor_mask": [[1]]},
    ),
    "features too large": (
        "subgraph",
        {"features": np.full((1, 6), 3e38, np.float32), "edges": LOOP},
    ),
    "edge outside": ("subgraph", {"features": ROW, "edges": LOOP + 1}),
    "negative edge": ("subgraph", {"features": ROW, "edges": LOOP - 1}),
    "flat edges": ("subgraph", {"features": ROW, "edges": LOOP[0]}),
    "column outside": (
        "subgraph_sparse",
        {
            "feature_indices": LOOP + [0, 6],
            "feature_values": np.ones(1, np.float32),
            "n_nodes": np.int64(1),
            "edges": LOOP,
        },
    ),
    "more nodes than fit": (
        "subgraph_sparse",
        {
            "feature_indices": LOOP,
            "feature_values": np.ones(1, np.float32),
            "n_nodes": np.int64(10**12),
            "edges": LOOP,
        },
    ),
    "class without a name": ("class_names", {"classes": np.array([3])}),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_request_is_an_invalid_argument(stub, kind):
    signature, inputs = WRONG[kind]
    with pytest.raises(grpc.RpcError) as error:
        asked(stub, signature, **inputs)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    if kind.startswith("unknown"):
        assert "nobody" in error.value.details()


def test_unknown_signature_is_told_as_the_server_does(stub):
    with pytest.raises(grpc.RpcError) as error:
        asked(stub, "predict", node_ids=IDS)
    assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION


def test_empty_batch_has_an_empty_answer(stub):
    none = np.array([], object)
    answer = asked(stub, "serving_default", node_ids=none)
    assert answer["probabilities"].shape == (0, 3)
    assert asked(stub, "embed", node_ids=none)["embedding"].shape == (0, 5)


@pytest.fixture(scope="module")
def post(model):
    """A function that posts a request and returns status and answer."""
    with serving.rest_server(model, "named") as address:

        def post(request):
            url = f"{address}/v1/models/named:predict"
            body = json.dumps(request).encode()
            try:
                with urllib.request.urlopen(url, body, timeout=60) as response:
                    return response.status, json.load(response)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        yield post


def test_rest_in_rows_and_in_columns(post, named):
    _, expected = named
    rows = [{"node_ids": each} for each in IDS]
    for request in ({"instances": rows}, {"instances": IDS}):
        status, answer = post(request)
        assert status == 200
        found = [row["probabilities"] for row in answer["predictions"]]
        np.testing.assert_allclose(found, expected[PLACES], atol=1e-5)
        assert set(answer["predictions"][0]) == set(COLUMNS)
    for inputs in ({"node_ids": IDS}, IDS):
        status, answer = post({"inputs": inputs})
        assert status == 200
        found = answer["outputs"]["probabilities"]
        np.testing.assert_allclose(found, expected[PLACES], atol=1e-5)
        assert answer["outputs"]["class"] == expected[PLACES].argmax(1).tolist()


def test_rest_of_other_signatures(post):
    new = {
        "features": [0.5, 0, 0, 1, 0, 0],
        "neighbor_ids": ["ä", "node 3"],
        "neighbor_mask": [True, True],
    }
    status, answer = post({"signature_name": "inductive", "instances": [new]})
    assert status == 200
    assert sum(answer["predictions"][0]["probabilities"]) == pytest.approx(1)
    status, answer = post({"signature_name": "embed", "instances": IDS})
    assert status == 200 and np.shape(answer["predictions"]) == (3, 5)
    graph = {"features": [new["features"]] * 2, "edges": [[0, 1]]}
    status, answer = post({"signature_name": "subgraph", "inputs": graph})
    assert status == 200
    assert np.shape(answer["outputs"]["probabilities"]) == (2, 3)


def test_rest_answers_an_unknown_id_with_400(post):
    status, answer = post({"instances": ["nobody"]})
    assert status == 400 and "nobody" in answer["error"]


NEW = {
    "features": [0.5, 0, 0, 1, 0, 0],
    "neighbor_ids": ["ä"],
    "neighbor_mask": [True],
}
WRONG_JSON = {
    "no object": ["node 3"],
    "neither form": {},
    "both forms": {"instances": ["node 3"], "inputs": ["node 3"]},
    "no rows": {"instances": []},
    "rank": {"instances": [["node 3"]]},
    "rows of two kinds": {"instances": [{"node_ids": "ä"}, "ä"]},
    "name": {"inputs": {"nodes": ["node 3"]}},
    "number for a string": {"instances": [3]},
    "signature": {"signature_name": "predict", "instances": ["ä"]},
    "no names of several inputs": {
        "signature_name": "inductive",
        "instances": [[0.5, 0, 0, 1, 0, 0]],
    },
    "row without an input": {
        "signature_name": "inductive",
        "instances": [NEW, {"features": NEW["features"]}],
    },
    "rows of two widths": {
        "signature_name": "inductive",
        "instances": [NEW, {**NEW, "features": [1.0]}],
    },
    "neighbours not padded": {
        "signature_name": "inductive",
        "instances": [NEW, {**NEW, "neighbor_ids": ["ä", "node 3"]}],
    },
    "number for true": {
        "signature_name": "inductive",
        "instances": [{**NEW, "neighbor_mask": [1]}],
    },
    "edge of fractions": {
        "signature_name": "subgraph",
        "inputs": {"features": [NEW["features"]], "edges": [[0.0, 0.7]]},
    },
    "NaN": {
        "signature_name": "inductive",
        "instances": [{**NEW, "features": [float("nan")] * 6}],
    },
}


@pytest.mark.parametrize("kind", WRONG_JSON)
def test_rest_answers_a_wrong_request_with_400(post, kind):
    status, answer = post(WRONG_JSON[kind])
    assert status == 400 and answer["error"]


def test_rest_takes_an_empty_batch_in_columns(post):
    status, answer = post({"inputs": {"node_ids": []}})
    assert status == 200
    assert answer == {"outputs": {name: [] for name in COLUMNS}}


def test_openvino_reads_the_default_signature(numbered):
    """An engine that shares no kernel with TensorFlow."""
    openvino = pytest.importorskip("openvino")
    folder, expected = numbered
    compiled = openvino.compile_model(str(folder), "CPU")
    answer = compiled({"node_ids": np.array([7, 0, 29])})
    (found,) = (
        value
        for output, value in answer.items()
        if "probabilities" in output.get_names()
    )
    np.testing.assert_allclose(found, expected[[7, 0, 29]], atol=1e-5)
