"""docs/large_graphs.md: from shards to predictions, by its own commands."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from absl.testing import flagsaver
from pyarrow import csv, parquet
from test_beam_prepare import EDGES, NODES, write_shards

pytest.importorskip("apache_beam")

from adaptive_gcn import main  # noqa: E402
from adaptive_gcn.beam import options, predict, prepare  # noqa: E402

PAGE = Path(__file__).parents[1] / "docs" / "large_graphs.md"


def words_of(module):
    """The flags of the first command of a module on the page."""
    text = PAGE.read_text("utf-8")
    (line, *_) = re.findall(rf"^python -m {module} (.*)$", text, re.MULTILINE)
    return ["page", *shlex.split(line)]


@pytest.mark.slow
def test_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "my_graph", "edges", EDGES, 2)
    write_shards(tmp_path / "my_graph", "nodes", NODES, 2)
    with flagsaver.flagsaver():
        prepare.run(prepare.parse(words_of("adaptive_gcn.beam.prepare")))
    words = words_of("adaptive_gcn.main")
    with flagsaver.flagsaver():
        main.main(main.parse_flags([*words, "--epochs=2"]))
    with flagsaver.flagsaver():
        config, folder = predict.parse_flags(
            words_of("adaptive_gcn.beam.predict")
        )
        predict.predict(config, folder, 4, options.pipeline_options())
    with flagsaver.flagsaver():
        words = ["page", "--mode=predict", "--output_dir=runs/large"]
        main.main(main.parse_flags(words))
    received = parquet.read_table("my_predictions")
    expected = csv.read_csv("runs/large/predictions.csv")
    assert received["id"].to_pylist() == [row[0] for row in NODES[1:]]
    assert received["class"].to_pylist() == expected["class"].to_pylist()
    np.testing.assert_allclose(
        received["probability"], expected["probability"], atol=1e-5
    )
