"""How Beam is to run a pipeline: its own options, in one flag."""

from __future__ import annotations

from absl import flags
from apache_beam.options.pipeline_options import PipelineOptions

OPTIONS = flags.DEFINE_list(
    "beam_pipeline_options",
    [],
    "options of Beam without their dashes, as runner=FlinkRunner,"
    "flink_master=host:8081; see the documentation of the runner",
)


def pipeline_options() -> PipelineOptions:
    """What `--beam_pipeline_options` says; a runner on this machine if not."""
    words = [f"--{word.strip()}" for word in OPTIONS.value if word.strip()]
    return PipelineOptions(words)
