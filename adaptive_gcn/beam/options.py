"""How Beam is to run a pipeline: its own options, in one flag."""

from __future__ import annotations

import apache_beam as beam
from absl import flags
from apache_beam.options.pipeline_options import PipelineOptions

from adaptive_gcn.config import ConfigError

OPTIONS = flags.DEFINE_list(
    "beam_pipeline_options",
    [],
    "options of Beam without their dashes, as runner=FlinkRunner,"
    "flink_master=host:8081; without runner: this machine, where "
    "direct_running_mode=multi_processing,direct_num_workers=0 uses all cores",
)
BLOCK_NODES = flags.DEFINE_integer(
    "block_nodes",
    2**15,
    "nodes in a block. A worker holds the edges of one block and, to predict, "
    "the rows of a few; a block travels as one element",
    lower_bound=1,
)
# What Beam's DirectRunner is unless it finds, or downloads, another program.
_HERE = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def pipeline_options() -> PipelineOptions:
    """What `--beam_pipeline_options` says; a runner on this machine if not."""
    words = [f"--{word.strip()}" for word in OPTIONS.value if word.strip()]
    if not any(word.startswith("--runner=") for word in words):
        words.append(f"--runner={_HERE}")
    return PipelineOptions(words)


def new_pipeline(options: PipelineOptions) -> beam.Pipeline:
    """A pipeline to be filled.

    Raises:
        ConfigError: If there is no such runner, or it refuses the options.
    """
    try:
        return beam.Pipeline(options=options)
    except ValueError as error:
        raise ConfigError(f"--beam_pipeline_options: {error}") from error
