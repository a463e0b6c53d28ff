"""Training and evaluation on features twice as large as the memory.

The process may not have more than LIMIT bytes of private memory (the kernel's
RLIMIT_DATA), of which TensorFlow and its threads take almost half.
"""

import subprocess
import sys

import numpy as np
import pytest

from adaptive_gcn.datasets import store
from adaptive_gcn.graph import Graph

LIMIT = 1344 * 2**20
N_NODES, N_FEATURES = 16_384, 45_000

RUN = """
import resource, sys
sys.modules["pandas"] = None  # Keras takes it where it is, and its memory.
from adaptive_gcn import config, loading, training
from adaptive_gcn.datasets import store

limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
loading.load = lambda config: store.read_store(sys.argv[2])
record = training.train(
    config.Config(
        features=sys.argv[4],
        precompute=sys.argv[4] == "standard",
        attention="none" if sys.argv[4] == "standard" else "plus_one",
        hidden_units=(4,),
        samples_per_layer=(32,),
        batch_size=32,
        epochs=1,
        output_dir=sys.argv[3],
    )
)
print(record["test_accuracy"])
try:
    bytearray(limit)
except MemoryError:
    print("the limit holds")
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of 2.7 GiB; only a few of its feature columns are not 0."""
    folder = tmp_path_factory.mktemp("large")
    shape = (N_NODES, N_FEATURES)
    features = np.lib.format.open_memmap(
        folder / "raw.npy", "w+", np.float32, shape
    )
    labels = np.arange(N_NODES) % 3
    features[np.arange(N_NODES), labels] = 1
    features.flush()
    assert features.nbytes > 2 * LIMIT
    ring = np.arange(N_NODES)
    graph = Graph.from_edges(
        (ring, np.roll(ring, 3)),
        features,
        labels,
        train_nodes=ring[:256],
        val_nodes=ring[256:512],
        test_nodes=ring[512:768],
        directed=False,
    )
    store.write_store(graph, folder / "s")
    (folder / "raw.npy").unlink()
    return folder / "s"


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["raw", "standard"])
def test_private_memory_does_not_grow_with_the_features(
    stored, tmp_path, scaling
):
    """With "standard" the scaled and the aggregated features are files too."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            RUN,
            str(LIMIT),
            stored,
            tmp_path / "r",
            scaling,
        ],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    accuracy, holds = done.stdout.splitlines()
    assert float(accuracy) > 0.5
    assert holds == "the limit holds"
