"""Predict every node of a graph whose hidden tables no machine can hold.

    python -m adaptive_gcn.beam.predict --output_dir=RUN --predictions=FOLDER

The flags are those of `--mode=predict`, but for FOLDER, which gets a Parquet
file for each block of nodes. Errors that a user can cause are found before the
pipeline starts and end with one line and exit status 1.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import apache_beam as beam
from absl import app, flags
from apache_beam.options.pipeline_options import PipelineOptions

from adaptive_gcn import main
from adaptive_gcn.beam.options import (
    BLOCK_NODES,
    end,
    parsed_or_exit,
    pipeline_options,
    running,
)
from adaptive_gcn.config import Config, ConfigError

_PARTS = ("all", "train", "val", "test")


def parse_flags(argv: list[str]) -> tuple[Config, str]:
    """The settings of the run in `output_dir`, and where to write.

    Raises:
        absl.flags.Error: As `main.parse_flags`; or if the mode is another one.
        run_folder.RunFolderError: If that run cannot be read.
    """
    # A `Config` takes a file for predictions only.
    words = [argv[0], "--mode=predict", *argv[1:]]
    config = main.parse_flags([*words, "--predictions="])
    flags.FLAGS(words)
    if config.mode != "predict":
        raise flags.Error(
            f"--mode={config.mode}: expected --mode=predict, or none"
        )
    folder = flags.FLAGS["predictions"].value.rstrip("/")
    return config, folder or f"{config.output_dir}/predictions"


def predict(
    config: Config, folder: str, block_nodes: int, options: PipelineOptions
) -> str:
    """Predict nodes with the weights of the run in `output_dir`.

    Args:
        config: The settings of the run; `nodes`, `embeddings` and `overwrite`
            as for `adaptive_gcn.predict`.
        folder: Where to write, on any file system that Beam knows.
        block_nodes: Nodes in a block.
        options: How to run the pipeline.

    Returns:
        A line for people: what was written, and where.

    Raises:
        ConfigError: If the run has attention over two hops, or there is no
            such runner.
        RunFolderError: If the run cannot be read or is another one, see
            `same_run`, or `folder` cannot be used.
        DataError: If the graph cannot be read, has no validation nodes, or a
            listed id is none of its.
    """
    from adaptive_gcn import node_choice, same_run
    from adaptive_gcn.beam import outputs, propagate

    _check_supported(config)
    outputs.check_free(folder, config.overwrite)
    run = propagate.Run(config, uuid.uuid4().hex)
    graph, _ = run.graph, run.network  # What cannot be read shows here.
    same_run.nodes_to_compare(graph, Path(config.output_dir))
    nodes = config.nodes or "all"
    if nodes not in _PARTS:
        nodes = node_choice.chosen_nodes(graph, nodes)
    task = propagate.task_of(run, block_nodes)
    temporary = outputs.new_folder(folder)
    try:
        with running(options) as pipeline:
            _ = (
                pipeline
                | "blocks" >> beam.Create(range(task.blocks.count))
                | "propagate" >> propagate.FullPropagation(task)
                | "outputs" >> outputs.WriteOutputs(task, nodes, temporary)
            )
        accuracy, n_rows = outputs.read_counts(temporary)
        same_run.check_accuracy(Path(config.output_dir), accuracy)
        outputs.publish(temporary, folder)
    finally:
        outputs.remove(temporary)
    return f"{n_rows} nodes of {graph.name}: {folder}"


def _check_supported(config: Config) -> None:
    if config.two_hop and config.attention != "none":
        raise ConfigError(
            f"--two_hop with --attention={config.attention}: each entry of "
            "M + M^2 has an attention of its own, but M^2 is never made here; "
            "use --mode=predict of adaptive_gcn.main"
        )


def _main(parsed: tuple[Config, str]) -> None:
    from adaptive_gcn import training  # TensorFlow: after the flags are good.

    config, folder = parsed

    def work() -> str:
        return predict(config, folder, BLOCK_NODES.value, pipeline_options())

    end(work, training.USER_ERRORS)


def _parse_or_exit(argv: list[str]) -> tuple[Config, str]:
    return parsed_or_exit(parse_flags, argv)


def run() -> None:
    """Entry point."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    app.run(_main, flags_parser=_parse_or_exit)


if __name__ == "__main__":
    run()
