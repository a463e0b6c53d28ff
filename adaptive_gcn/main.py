"""Command line: flags -> `Config` -> one function per --mode.

    python -m adaptive_gcn.main --flagfile=flags/cora.cfg

Every field of `Config` is a flag. Errors that a user can cause end with one
line and exit status 1.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from adaptive_gcn import run_folder, stopping
from adaptive_gcn.config import (
    MODES_ON_A_RUN,
    PLACES,
    Config,
    describe_range,
    later_settings,
)
from adaptive_gcn.errors import one_line

# May differ between a run and a later look at it.
_FREE_IN_EVALUATION = (*PLACES, "device", "block_entries")


def _define_flags() -> None:
    for field in dataclasses.fields(Config):
        _define_flag(field)


def _define_flag(field: dataclasses.Field[Any]) -> None:
    name, default, allowed = field.name, field.default, field.metadata
    limits = describe_range(allowed)
    text = f"{allowed['help']}{f' ({limits})' if limits else ''}."
    if allowed["choices"]:
        flags.DEFINE_enum(
            name, default, allowed["choices"], text, case_sensitive=False
        )
    elif isinstance(default, bool):
        flags.DEFINE_bool(name, default, text)
    elif isinstance(default, tuple):
        flags.DEFINE_list(name, ",".join(map(str, default)), text)
    elif isinstance(default, int):
        flags.DEFINE_integer(name, default, text)
    elif isinstance(default, float) or default is None:
        flags.DEFINE_float(name, default, text)
    else:
        flags.DEFINE_string(name, default, text)


_define_flags()


def parse_flags(argv: list[str]) -> Config:
    """Turn the command line into a checked `Config`.

    To evaluate, predict or export the settings are those of the run in
    `output_dir`; a flag given that contradicts them is an error.

    Raises:
        absl.flags.Error: If a flag is unknown, out of range or contradictory,
            if there are words that are not flags, or if a flag file cannot be
            read.
        run_folder.RunFolderError: If that run cannot be read.
    """
    flag_values = flags.FLAGS
    if any(word in ("--flagfile=", "-flagfile=") for word in argv):
        raise flags.Error("--flagfile= names no file")
    try:
        stray = flag_values(argv)[1:]
    except flags.CantOpenFlagFileError as error:
        path = os.path.abspath(error.__context__.filename)
        raise flags.Error(
            f"cannot read the flag file {path} (paths of flag files, nested "
            "ones too, count from the working folder)"
        ) from error
    except UnicodeDecodeError as error:
        raise flags.Error(f"a flag file is not UTF-8: {error}") from error
    if stray:
        raise flags.Error(
            f"expected only --name=value flags. Received: {' '.join(stray)}"
        )
    _log_repeated(argv)
    place = flag_values["dataset_dir"]
    if place.present and not place.value:
        raise flags.Error(
            "--dataset_dir= names no folder; give one, or leave the flag out"
        )
    config = _as_config(flag_values)
    if config.mode in MODES_ON_A_RUN:
        return _config_of_run(config, flag_values)
    return config


def _as_config(flag_values: flags.FlagValues) -> Config:
    values = {}
    for field in dataclasses.fields(Config):
        value = flag_values[field.name].value
        if isinstance(field.default, tuple):
            value = _as_integers(field.name, value)
        values[field.name] = value
    try:
        return Config(**values)
    except ValueError as error:
        raise flags.Error(str(error)) from error


def _as_integers(name: str, words: list[str]) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in words)
    except ValueError as error:
        raise flags.Error(
            f"--{name}={','.join(words)}: expected integers separated by commas"
        ) from error


def _config_of_run(given: Config, flag_values: flags.FlagValues) -> Config:
    if not given.output_dir:
        raise flags.Error(
            f"--mode={given.mode} needs --output_dir, a run's folder"
        )
    path = Path(given.output_dir) / run_folder.CONFIG
    stored = _settings_of_run(path)
    values = dataclasses.asdict(given)
    for name in ("data_dir", "dataset_dir", "store_dir"):
        if not flag_values[name].present:
            values[name] = stored.get(name, "")
    for name in set(values).difference(_FREE_IN_EVALUATION):
        if name not in stored:
            raise run_folder.RunFolderError(
                f"{path}: has no {name}; expected every setting of the run"
            )
        value = stored[name]
        value = tuple(value) if isinstance(value, list) else value
        if flag_values[name].present and value != values[name]:
            raise flags.Error(
                f"--{name}={values[name]} contradicts {path}, which has "
                f"{value}; leave the flag out"
            )
        values[name] = value
    if flag_values["dataset_dir"].present and values["dataset"] != "folder":
        raise flags.Error(
            f"--dataset_dir={values['dataset_dir']} contradicts {path}, which "
            f"has --dataset={values['dataset']}; leave the flag out"
        )
    try:
        return Config(**values)
    except (TypeError, ValueError) as error:
        raise run_folder.RunFolderError(f"{path}: {error}") from error


def _settings_of_run(path: Path) -> dict[str, Any]:
    """The settings in a file, and those that were none when it was written."""
    stored = run_folder.read_json(path)
    known = {each.name for each in dataclasses.fields(Config)}
    unknown = ", ".join(sorted(stored.keys() - known))
    if unknown:
        raise run_folder.RunFolderError(
            f"{path}: has {unknown}, unknown to this version; expected the "
            "settings of a run of this version or an earlier one"
        )
    later = later_settings(stored)
    if later:
        words = " ".join(f"--{name}={value}" for name, value in later.items())
        logging.info("%s: from before some flags: taken as %s", path, words)
    return later | stored


def _log_repeated(argv: list[str]) -> None:
    """Say which flags were given more than once; absl takes the last one."""
    words = flags.FLAGS.read_flags_from_files(argv[1:], force_gnu=False)
    names = [_flag_name(word) for word in words if word.startswith("-")]
    for name in sorted({n for n in names if names.count(n) > 1}):
        if name in flags.FLAGS:
            value = flags.FLAGS[name].value
            logging.info("--%s is given more than once: %s counts", name, value)


def _flag_name(word: str) -> str:
    """The flag that a word of the command line sets: --noskip sets skip."""
    name = word.lstrip("-").partition("=")[0]
    return name if name in flags.FLAGS else name.removeprefix("no")


def main(config: Config) -> None:
    """Run one mode and print its result."""
    logging.info("settings: %s", json.dumps(config.as_dict()))
    if config.mode == "convert":
        _convert(config)
        return
    if config.mode == "check_data":
        _check_data(config)
        return
    from adaptive_gcn import training  # TensorFlow: after the flags are good.

    signals = stopping.StopSignals()
    try:
        with signals.handled():
            if config.mode == "train":
                text = training.describe(training.train(config, signals))
            else:
                text = _MODES[config.mode](config)
    except training.USER_ERRORS as error:
        sys.exit(one_line(error))
    except stopping.Stopped as stop:
        hint = "; --resume goes on" if config.mode == "train" else ""
        print(f"{stop}{hint}", file=sys.stderr)
        sys.exit(stop.status)
    print(text)


def _evaluate(config: Config) -> str:
    from adaptive_gcn import training

    return json.dumps(training.evaluate(config), indent=1)


def _predict(config: Config) -> str:
    from adaptive_gcn import predict

    return predict.predict(config)


def _export(config: Config) -> str:
    from adaptive_gcn import export

    return export.export(config)


_MODES = {
    "evaluate": _evaluate,
    "predict": _predict,
    "export": _export,
}


def _convert(config: Config) -> None:
    from adaptive_gcn import loading

    _raise_interrupts()
    try:
        text = loading.convert(config)
    except loading.USER_ERRORS as error:
        sys.exit(one_line(error))
    except KeyboardInterrupt:
        print("interrupted; nothing half-written is left", file=sys.stderr)
        sys.exit(130)
    print(text)


def _check_data(config: Config) -> None:
    from adaptive_gcn import check_data

    _raise_interrupts()
    try:
        text, is_good = check_data.report(config)
    except KeyboardInterrupt:
        sys.exit(130)
    print(text)
    if not is_good:
        sys.exit(1)


def _end_at_once(*_: Any) -> None:
    """Handle Ctrl-C during imports, some of which lose KeyboardInterrupt."""
    os.write(2, b"interrupted; nothing was begun\n")
    os._exit(130)


def _raise_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run() -> None:
    """Entry point of the console script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    logging.set_verbosity(logging.INFO)
    for field in dataclasses.fields(Config):  # For --help of the script.
        flag = flags.FLAGS[field.name]
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    try:
        try:
            app.run(main, flags_parser=_parse_or_exit)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads any more; nor must Python try when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


def _parse_or_exit(argv: list[str]) -> Config:
    """Absl's hook: what it returns goes to `main`."""
    try:
        return parse_flags(argv)
    except (flags.Error, run_folder.RunFolderError) as error:
        sys.exit(f"Flags parsing error: {error}")


if __name__ == "__main__":
    run()
