"""Runs what has no record yet, one run a core at a time."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import queue
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from adaptive_gcn import run_folder
from adaptive_gcn.config import Config
from adaptive_gcn.datasets import download, reddit
from adaptive_gcn.experiments import fingerprint, records
from adaptive_gcn.experiments.grid import DATASETS, NO_FILES, UNFETCHED, Cell

_RUNS_OF_A_PROCESS = 40


@dataclasses.dataclass(frozen=True)
class Job:
    """A run to be made.

    Attributes:
        cell: Its cell.
        config: Its settings.
    """

    cell: Cell
    config: Config

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.config.seed


def run(
    cells: Sequence[Cell], seeds: Sequence[int], results: Path, n_workers: int
) -> int:
    """Run every cell with every seed, unless its record is current.

    A run that fails leaves its reason, beside any record of earlier code.
    Interrupted, this leaves whole records only, and goes on where it was when
    called again.

    Args:
        cells: What to run.
        seeds: Of each cell.
        results: Folder of the records.
        n_workers: Runs at a time, each on a core of its own.

    Returns:
        The number of runs that failed.
    """
    # Flags are parsed here: absl keeps them in one place for all threads.
    jobs = [Job(cell, cell.config(seed)) for cell in cells for seed in seeds]
    left = [
        job
        for job in jobs
        if not records.is_current(results, job.cell, job.config)
    ]
    n_done = len(jobs) - len(left)
    left = with_files(left)
    n_wanted = n_done + len(left)
    print(f"{n_wanted} runs, {n_done} have their record", flush=True)
    return run_jobs(left, results, n_workers)


def run_jobs(jobs: Sequence[Job], results: Path, n_workers: int) -> int:
    """Make all of some runs; see `run`."""
    grid = _Grid(jobs, results, max(1, min(n_workers, len(jobs))))
    grid.run()
    return grid.n_failed


def with_files(jobs: list[Job]) -> list[Job]:
    """Find each data set's files, before any run.

    Those that nothing fetches are left out without their files, with a line.

    Raises:
        DataNotFoundError: If other files are neither there nor to be fetched.
    """
    left_out = set()
    for name, config in {_data_of(job): job.config for job in jobs}.items():
        try:
            _find_files(config)
        except download.DataNotFoundError:
            if name not in UNFETCHED:
                raise
            print(f"{name} is {NO_FILES}", flush=True)
            left_out.add(name)
    return [job for job in jobs if _data_of(job) not in left_out]


def _data_of(job: Job) -> str:
    """A cell of Reddit may be run on the generated graph of its size."""
    in_a_folder = job.config.dataset == "folder"
    return job.cell.dataset if in_a_folder else job.config.dataset


def _find_files(config: Config) -> None:
    if config.dataset == "reddit":
        root = download.data_root(config.data_dir)
        reddit.files_of(root, config.reddit_format)
    elif config.dataset in DATASETS:
        download.locate(config.dataset, config.data_dir)
    elif config.dataset_dir and not Path(config.dataset_dir).exists():
        raise download.DataNotFoundError(f"{config.dataset_dir} needed")


class _Grid:
    """Workers that take jobs from one queue until it is empty."""

    def __init__(
        self, jobs: Sequence[Job], results: Path, n_workers: int
    ) -> None:
        self.n_failed = 0
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            self._jobs.put(job)
        self._progress = _Progress(jobs, results, n_workers)
        self._results = results
        self._n_workers = n_workers
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._scratch = tempfile.TemporaryDirectory(prefix="adaptive-gcn-")
        self._stopped = threading.Event()
        self._workers: list[_Worker] = []

    def run(self) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._workers = [
            _Worker(cores[number % len(cores)], Path(self._scratch.name))
            for number in range(self._n_workers)
        ]
        threads = [
            threading.Thread(target=self._work, args=(worker,), daemon=True)
            for worker in self._workers
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self._stopped.set()
            for worker in self._workers:
                worker.stop()
            self._scratch.cleanup()
        if self._error is not None:
            raise self._error

    def _work(self, worker: _Worker) -> None:
        # What this thread starts inherits its core.
        os.sched_setaffinity(0, [worker.core])
        try:
            while not self._stopped.is_set():
                self._do(worker, self._jobs.get_nowait())
        except queue.Empty:
            pass
        except BaseException as error:  # A record could not be written.
            self._error = error

    def _do(self, worker: _Worker, job: Job) -> None:
        started = time.perf_counter()
        failed = False
        try:
            record = worker.train(job.config)
            records.write(self._results, job.cell, job.seed, record)
            outcome = _outcome(record)
        except Exception as error:  # Whatever ended it is its reason.
            if self._stopped.is_set():
                return
            failed = True
            reason = f"{type(error).__name__}: {error}"
            records.write_failure(self._results, job.cell, job.config, reason)
            outcome = f"failed: {reason}"
        with self._lock:
            self.n_failed += failed
            seconds = time.perf_counter() - started
            self._progress.tell(job, outcome, seconds, failed)


def _outcome(record: dict[str, Any]) -> str:
    if record["test_accuracy"] is None:
        return f"validation {record['val_accuracy']:.4f}"
    return f"test {record['test_accuracy']:.4f}"


class _Worker:
    """A process on one core that trains one run after another."""

    def __init__(self, core: int, scratch: Path) -> None:
        self.core = core
        self._scratch = scratch
        self._pool: ProcessPoolExecutor | None = None
        self._n_runs = 0
        self._stopped = False
        # Where the process writes what is meant for a terminal.
        self._log = scratch / f"core{core}.log"

    def train(self, config: Config) -> dict[str, Any]:
        """The record of a run.

        Raises:
            RuntimeError: If the process dies.
            Exception: Whatever training raises.
        """
        if self._pool is None or self._n_runs >= _RUNS_OF_A_PROCESS:
            self._end()
            if self._stopped:
                raise RuntimeError("stopped")
            self._pool = ProcessPoolExecutor(
                1,
                multiprocessing.get_context("spawn"),
                _set_up,
                (self._log,),
            )
            self._n_runs = 0
        self._n_runs += 1
        try:
            return self._pool.submit(_train, config, self._scratch).result()
        except BrokenProcessPool as error:
            self._pool = None
            raise RuntimeError(
                "the process of the run was killed, maybe for want of memory; "
                f"it said last: {self._last_words()}"
            ) from error

    def _last_words(self) -> str:
        if not self._log.exists():
            return "nothing"
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing"

    def stop(self) -> None:
        self._stopped = True
        self._end()

    def _end(self) -> None:
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            self._pool = None


def _set_up(log: Path) -> None:
    """Set up a worker: one thread, no chatter, no life without its parent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(log, "a") as file:
        os.dup2(file.fileno(), 2)
    os.environ.update(
        OMP_NUM_THREADS="1",
        TF_CPP_MIN_LOG_LEVEL="3",
        KERAS_BACKEND="tensorflow",
    )


def _end_with_parent() -> None:
    """End this process when the one that started it is no more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _train(config: Config, scratch: Path) -> dict[str, Any]:
    wanted = fingerprint.of_run(config)  # Of the code that is imported next.
    from adaptive_gcn import training  # TensorFlow: in the worker only.

    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        record = training.train(dataclasses.replace(config, output_dir=folder))
    return {**record, "fingerprint": wanted}


class _Progress:
    """A line a run, with what is left by the mean of its cell's runs.

    Those of earlier calls count until the first one of this call is there.
    Runs that failed tell nothing of how long others take.
    """

    def __init__(
        self, jobs: Sequence[Job], results: Path, n_workers: int
    ) -> None:
        self._left = [job.cell for job in jobs]
        self._total = len(jobs)
        self._n_workers = n_workers
        self._seconds: dict[Cell, list[float]] = {}
        self._earlier = {
            cell: seconds
            for cell in set(self._left)
            if (seconds := _recorded_seconds(results, cell))
        }

    def tell(
        self, job: Job, outcome: str, seconds: float, failed: bool
    ) -> None:
        self._left.remove(job.cell)
        if not failed:
            self._seconds.setdefault(job.cell, []).append(seconds)
        done = self._total - len(self._left)
        print(
            f"[{done}/{self._total}] {job.cell.name} seed {job.seed}: "
            f"{outcome}, {seconds:.0f} s{self._rest()}",
            flush=True,
        )

    def _rest(self) -> str:
        if not (self._earlier or self._seconds):
            return ""
        return f"; about {self._minutes_left():.0f} min left"

    def _minutes_left(self) -> float:
        known = {
            cell: statistics.mean(seconds)
            for cell, seconds in (self._earlier | self._seconds).items()
        }
        typical = statistics.mean(known.values())
        left = sum(known.get(cell, typical) for cell in self._left)
        return left / 60 / self._n_workers


def _recorded_seconds(results: Path, cell: Cell) -> list[float]:
    try:
        runs = records.read(results, cell)
    except run_folder.RunFolderError:  # What is no record is made anew.
        return []
    return [run["seconds_total"] for run in runs if "seconds_total" in run]
