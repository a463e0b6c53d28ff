"""The data set that a `Config` names: load it, or convert it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from adaptive_gcn import datasets, run_folder
from adaptive_gcn.config import Config
from adaptive_gcn.datasets import data_warnings, store, writers
from adaptive_gcn.datasets.folder_options import FolderOptions
from adaptive_gcn.datasets.reddit_like import (
    RedditLikeConfig,
    reddit_like_graph,
)
from adaptive_gcn.datasets.synthetic import SyntheticConfig
from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import Graph

# What a user can cause and mend: one line and no traceback.
USER_ERRORS = (DataError, MemoryError, OSError)


# The flag to change where a graph cannot be generated.
_SIZES = {
    "synthetic": "synthetic_degree",
    "reddit_like": "reddit_like_scale",
}


def load(config: Config) -> Graph:
    """The graph that `config` names, its features as they were read.

    Raises:
        DataError: If the data set cannot be used, or generated.
        OSError: If something cannot be read, or a store not written.
    """
    name = config.dataset
    with _size_named(config):
        return datasets.load(
            name,
            data_dir=config.data_dir,
            split=config.split,
            synthetic=_synthetic(config) if name == "synthetic" else None,
            reddit_format=config.reddit_format,
            link_ends=config.link_ends,
            reddit_like=_reddit_like(config) if name == "reddit_like" else None,
            store_dir=config.store_dir,
            dataset_dir=config.dataset_dir,
            split_seed=config.split_seed,
            folder=FolderOptions(config.columns, config.missing_features),
        )


@contextlib.contextmanager
def _size_named(config: Config) -> Iterator[None]:
    """Name the flag where a graph cannot be generated in the size asked for."""
    try:
        yield
    except DataError as error:
        flag = _SIZES.get(config.dataset)
        if flag is None:
            raise
        value = getattr(config, flag)
        raise DataError(f"--{flag}={value}: {error}") from error


def convert(config: Config) -> str:
    """Write the data set to `output_dir` in the form that `to` names.

    Whether that can be written is seen before the data set is loaded.

    Returns:
        A line for people: what was written, and where.

    Raises:
        DataError: If the data set, or the folder, cannot be used.
        OSError: If something cannot be read or written.
    """
    folder = Path(config.output_dir)
    _check_target(config, folder)
    if config.to != "store":
        graph = _with_raw_counts(config)
        writers.FORMATS[config.to](graph, folder, overwrite=config.overwrite)
    else:
        with data_warnings.kept() as warnings:
            graph = load(config)
        store.write_store(
            graph, folder, config.dataset, config.overwrite, warnings
        )
    names = ", ".join(sorted(os.listdir(folder)))
    return f"{graph.name} is in {folder} as {config.to}: {names}"


def _check_target(config: Config, folder: Path) -> None:
    named = f"--output_dir={folder}"
    try:
        if config.to == "store":
            store.check_free(folder, config.overwrite)
        else:
            writers.check_free(folder, config.to, config.overwrite)
    except DataError as error:
        raise type(error)(f"{named}: {error}") from error
    # A store takes the place of its folder, files are put into it.
    target = folder.resolve().parent if config.to == "store" else folder
    run_folder.make_writable(target, named)


def _with_raw_counts(config: Config) -> Graph:
    """As `load`, but with the counts of a generated graph as drawn."""
    if config.dataset == "reddit_like":
        with _size_named(config):
            return reddit_like_graph(_reddit_like(config))
    return load(config)


def _reddit_like(config: Config) -> RedditLikeConfig:
    whole = RedditLikeConfig()
    return RedditLikeConfig(
        n_nodes=round(whole.n_nodes * config.reddit_like_scale),
        n_edges=round(whole.n_edges * config.reddit_like_scale),
        seed=config.synthetic_seed,
    )


def _synthetic(config: Config) -> SyntheticConfig:
    return SyntheticConfig(
        n_nodes=config.synthetic_nodes,
        n_features=config.synthetic_features,
        n_classes=config.synthetic_classes,
        mean_degree=config.synthetic_degree,
        homophily=config.synthetic_homophily,
        label_noise=config.synthetic_label_noise,
        word_signal=config.synthetic_word_signal,
        seed=config.synthetic_seed,
    )
