"""How Beam is to run a pipeline: its own options, in one flag."""

from __future__ import annotations

import contextlib
import io
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import apache_beam as beam
from absl import flags
from apache_beam.options.pipeline_options import PipelineOptions

from adaptive_gcn.config import ConfigError
from adaptive_gcn.errors import one_line
from adaptive_gcn.run_folder import RunFolderError

_T = TypeVar("_T")

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
    upper_bound=2**31 - 1,
)
# What Beam's DirectRunner is unless it finds, or downloads, another program.
_HERE = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


class PipelineError(Exception):
    """A pipeline failed; the text is what Beam says last."""


def pipeline_options() -> PipelineOptions:
    """What `--beam_pipeline_options` says; a runner on this machine if not.

    Raises:
        ConfigError: If Beam cannot read one of the options.
    """
    words = [f"--{word.strip()}" for word in OPTIONS.value if word.strip()]
    if not any(word.startswith("--runner=") for word in words):
        words.append(f"--runner={_HERE}")
    options = PipelineOptions(words)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options.get_all_options()
    except SystemExit as error:  # As argparse ends a program.
        raise ConfigError(_of_options(_last_line(said.getvalue()))) from error
    return options


@contextlib.contextmanager
def running(options: PipelineOptions) -> Iterator[beam.Pipeline]:
    """A pipeline to be filled, which then runs.

    Raises:
        ConfigError: If there is no such runner, or it refuses the options.
        PipelineError: If a worker fails.
        KeyboardInterrupt: If it is interrupted.
    """
    try:
        pipeline = beam.Pipeline(options=options)
    except ValueError as error:
        raise ConfigError(_of_options(str(error))) from error
    try:
        with pipeline:
            yield pipeline
    except RuntimeError as error:  # Beam's, around whatever it was.
        last = _last_line(str(error))
        if "KeyboardInterrupt" in last:
            raise KeyboardInterrupt from error
        raise PipelineError(last) from error


def _of_options(text: str) -> str:
    return f"--beam_pipeline_options: {text}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no reason was given"


def parsed_or_exit(parse: Callable[[list[str]], _T], argv: list[str]) -> _T:
    """What `parse` makes of a command line, or one line and status 1."""
    try:
        return parse(argv)
    except (flags.Error, RunFolderError) as error:
        sys.exit(f"Flags parsing error: {error}")


def end(work: Callable[[], str], user_errors: tuple[Any, ...]) -> None:
    """Do some work, print what it returns, or end as a command does.

    Args:
        work: What to do; SIGTERM interrupts it as Ctrl-C does.
        user_errors: What a user can cause and mend: one line, status 1.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("apache_beam").setLevel(logging.WARNING)
    try:
        print(work())
    except (ConfigError, PipelineError, *user_errors) as error:
        sys.exit(one_line(error))
    except KeyboardInterrupt:
        print("interrupted; nothing half-written is left", file=sys.stderr)
        sys.exit(130)
