"""How Beam is to run a pipeline: its own options, in one flag."""

from __future__ import annotations

from absl import flags
from apache_beam.options.pipeline_options import PipelineOptions

OPTIONS = flags.DEFINE_list(
    "beam_pipeline_options",
    [],
    "options of Beam without their dashes, as runner=FlinkRunner,"
    "flink_master=host:8081; without runner: this machine, where "
    "direct_running_mode=multi_processing,direct_num_workers=0 uses all cores",
)
# What Beam's DirectRunner is unless it finds, or downloads, another program.
_HERE = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def pipeline_options() -> PipelineOptions:
    """What `--beam_pipeline_options` says; a runner on this machine if not."""
    words = [f"--{word.strip()}" for word in OPTIONS.value if word.strip()]
    if not any(word.startswith("--runner=") for word in words):
        words.append(f"--runner={_HERE}")
    return PipelineOptions(words)
