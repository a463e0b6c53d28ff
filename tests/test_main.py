"""The command line: what it takes, what it refuses and what it says."""

import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import h5py
import pytest
from absl import flags, logging
from absl.testing import flagsaver

from adaptive_gcn import main
from adaptive_gcn.config import LATER, MODES_ON_A_RUN, Config
from adaptive_gcn.run_folder import RunFolderError

ROOT = pathlib.Path(__file__).parents[1]
FLAG_FILES = sorted(ROOT.glob("flags/*.cfg"))
SMALL = (
    "--synthetic_nodes=90",
    "--synthetic_features=30",
    "--synthetic_classes=3",
    "--samples_per_layer=8",
    "--batch_size=16",
    "--epochs=2",
)


@pytest.fixture(autouse=True)
def fresh_flags():
    with flagsaver.flagsaver():
        flags.FLAGS.unparse_flags()
        yield


def parse(*words):
    return main.parse_flags(["main", *map(str, words)])


def refused(*words):
    """The message with which the words are refused."""
    with pytest.raises((flags.Error, RunFolderError)) as error:
        parse(*words)
    return str(error.value)


NEEDED = (
    {field.name for field in dataclasses.fields(Config)}
    - {*LATER}
    - {*main._FREE_IN_EVALUATION}
)
MODULE = ("-m", "adaptive_gcn.main")
SCRIPT = ("-c", "from adaptive_gcn.main import run; run()")


def command(*words, start=MODULE, **environment):
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, *start, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=environment.pop("cwd", ROOT),
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )


# Flags and settings.


def test_no_flags_give_the_defaults():
    assert parse() == Config()


@pytest.mark.parametrize(
    "field", dataclasses.fields(Config), ids=lambda f: f.name
)
def test_every_setting_has_a_flag_with_its_help_and_range(field):
    flag = flags.FLAGS[field.name]
    assert field.metadata["help"] in flag.help
    for key in ("low", "above", "high"):
        limit = field.metadata[key]
        assert limit is None or str(limit) in flag.help
    if field.metadata["choices"]:
        assert tuple(flag.parser.enum_values) == field.metadata["choices"]


def test_every_kind_of_value_is_understood():
    config = parse(
        "--dataset=pubmed",
        "--hidden_units=32,16",
        "--samples_per_layer=64, 32,16",
        "--skip",
        "--noreplacement",
        "--learning_rate=1e-2",
        "--variance_weight=0",
        "--seed=7",
    )
    assert config.dataset == "pubmed"
    assert config.hidden_units == (32, 16)
    assert config.samples_per_layer == (64, 32, 16)
    assert (config.skip, config.replacement) == (True, False)
    assert (config.learning_rate, config.variance_weight) == (0.01, 0.0)
    assert config.seed == 7


@pytest.mark.parametrize("name", ["cora", "Cora", "CORA"])
def test_data_set_is_found_in_any_case(name):
    assert parse(f"--dataset={name}").dataset == "cora"


@pytest.mark.parametrize("name", ["core", ""])
def test_unknown_data_set_is_refused_with_the_choices(name):
    message = refused(f"--dataset={name}")
    for part in ("--dataset", "synthetic", "cora", "citeseer", "pubmed"):
        assert part in message


@pytest.mark.parametrize(
    "word, expected",
    [
        ("--samples_per_layer=0", "--samples_per_layer=0: expected at least 1"),
        ("--batch_size=-1", "--batch_size=-1: expected at least 1"),
        ("--variance_weight=-1", "--variance_weight=-1.0: expected at least 0"),
        (
            "--learning_rate=nan",
            "--learning_rate=nan: expected a finite number",
        ),
        ("--hidden_units=", "--hidden_units: expected at least one"),
        ("--hidden_units=16,x", "--hidden_units=16,x: expected integers"),
        ("--hidden_units=1.5", "--hidden_units=1.5: expected integers"),
        (
            "--samples_per_layer=1,2,3",
            "--samples_per_layer=1,2,3: expected one",
        ),
        ("--batch_size=many", "--batch_size=many"),
        ("--select=val_acc", "val_loss|val_accuracy"),
    ],
)
def test_value_out_of_range_is_refused_by_name(word, expected):
    assert expected in refused(word)


def test_misspelt_flag_is_refused_with_a_suggestion(tmp_path):
    for words in (["--datset=cora"], [flag_file(tmp_path, "--datset=cora")]):
        message = refused(*words)
        assert "datset" in message
        assert "Did you mean: dataset" in message


@pytest.mark.parametrize(
    "words", [["cora"], ["--seed=1", "x", "y"], ["--", "-z"]]
)
def test_words_that_are_no_flags_are_refused(words):
    message = refused(*words)
    assert message.startswith("expected only --name=value flags. Received: ")
    assert message.endswith(words[-1])


@pytest.fixture
def said(monkeypatch):
    """What absl's `logging.info` was asked to say."""
    lines = []
    monkeypatch.setattr(
        logging, "info", lambda text, *values: lines.append(text % values)
    )
    return lines


def test_last_of_repeated_flags_wins_and_that_is_said(tmp_path, said):
    file = flag_file(tmp_path, "--seed=2\n--epochs=5")
    assert parse("--seed=1", file, "--skip").seed == 2
    assert said == ["--seed is given more than once: 2 counts"]


def test_flag_after_a_flag_file_overrides_it(tmp_path, said):
    config = parse(
        flag_file(tmp_path, "--seed=2\n--skip"), "--seed=3", "--noskip"
    )
    assert (config.seed, config.skip) == (3, False)
    assert said == [
        "--seed is given more than once: 3 counts",
        "--skip is given more than once: False counts",
    ]


def test_flags_given_once_are_not_mentioned(said):
    parse("--seed=1", "--output_dir", "seed", "--data_dir", "seed")
    assert not said


# Flag files.


def flag_file(folder, text, name="some.cfg"):
    path = folder / name
    path.write_text(text)
    return f"--flagfile={path}"


def test_flag_file_may_have_comments_blanks_and_windows_line_ends(tmp_path):
    file = flag_file(
        tmp_path, "# a comment\r\n\r\n--seed=2  \r\n// b\r\n--skip\r\n"
    )
    config = parse(file)
    assert (config.seed, config.skip) == (2, True)


def test_indented_comment_is_not_taken_for_a_setting(tmp_path):
    message = refused(flag_file(tmp_path, "--seed=2\n  # indented"))
    assert "Received: # indented" in message


def test_missing_flag_file_is_named_with_its_full_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "flags" / "nosuch.cfg"
    message = refused("--flagfile=flags/nosuch.cfg")
    assert f"cannot read the flag file {path} " in message
    assert "count from the working folder" in message


def test_nested_flag_file_counts_from_the_working_folder(tmp_path, monkeypatch):
    inner, other = tmp_path / "flags", tmp_path / "other"
    inner.mkdir()
    other.mkdir()
    flag_file(inner, "--seed=4", "base.cfg")
    outer = flag_file(inner, "--flagfile=flags/base.cfg\n--skip", "overlay.cfg")
    monkeypatch.chdir(tmp_path)
    assert parse(outer).seed == 4
    monkeypatch.chdir(other)
    flags.FLAGS.unparse_flags()
    assert str(other / "flags" / "base.cfg") in refused(outer)


def test_there_are_flag_files():
    assert FLAG_FILES


@pytest.mark.parametrize("path", FLAG_FILES, ids=lambda path: path.name)
def test_flag_file_of_the_project_parses(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    config = parse(f"--flagfile={path.relative_to(ROOT)}")
    assert config.mode == "train"
    assert not config.output_dir


# Evaluation of a run.


def stored_run(folder, **settings):
    config = Config(output_dir=str(folder), **settings)
    (folder / "config.json").write_text(json.dumps(config.as_dict()))
    return config


def test_evaluation_takes_the_settings_of_the_run(tmp_path):
    stored_run(tmp_path, hidden_units=(8, 4), seed=5, method="iid", skip=True)
    config = parse(
        "--mode=evaluate", f"--output_dir={tmp_path}", "--device=cpu"
    )
    assert config.mode == "evaluate"
    assert config.device == "cpu"
    assert (config.hidden_units, config.seed) == ((8, 4), 5)
    assert (config.method, config.variance_weight) == ("iid", 0.0)
    assert config.skip


def test_evaluation_takes_flags_that_agree_with_the_run(tmp_path):
    stored_run(tmp_path, hidden_units=(8, 4))
    config = parse(
        "--mode=evaluate", f"--output_dir={tmp_path}", "--hidden_units=8,4"
    )
    assert config.hidden_units == (8, 4)


@pytest.mark.parametrize(
    "word, told, stored",
    [
        ("--seed=6", "--seed=6", "5"),
        ("--hidden_units=8", "--hidden_units=(8,)", "(8, 4)"),
        ("--variance_weight=0.5", "--variance_weight=0.5", "0.0"),
    ],
)
def test_evaluation_refuses_a_flag_that_contradicts_the_run(
    tmp_path, word, told, stored
):
    stored_run(tmp_path, hidden_units=(8, 4), seed=5, variance_weight=0.0)
    message = refused("--mode=evaluate", f"--output_dir={tmp_path}", word)
    assert message == (
        f"{told} contradicts {tmp_path / 'config.json'}, which has {stored}; "
        "leave the flag out"
    )


@pytest.mark.parametrize("mode", MODES_ON_A_RUN)
def test_own_graph_of_a_run_is_found_again_or_where_it_has_moved(
    tmp_path, mode
):
    settings = {"split": "given:2", "columns": "id=key", "split_seed": 3}
    stored = stored_run(tmp_path, dataset_dir="mine", **settings)
    words = f"--mode={mode}", f"--output_dir={tmp_path}"
    config = parse(*words)
    assert dataclasses.replace(config, mode="train") == stored
    moved = parse(*words, "--dataset_dir=moved")
    assert dataclasses.replace(config, dataset_dir="moved") == moved


@pytest.mark.parametrize("dataset", ["synthetic", "cora"])
def test_own_graph_for_a_run_on_another_data_set_is_refused(tmp_path, dataset):
    stored_run(tmp_path, dataset=dataset)
    words = "--mode=evaluate", f"--output_dir={tmp_path}"
    message = refused(*words, "--dataset_dir=mine")
    assert message == (
        f"--dataset_dir=mine contradicts {tmp_path / 'config.json'}, which has "
        f"--dataset={dataset}; leave the flag out"
    )


@pytest.mark.parametrize("mode", ["predict", "export"])
def test_later_looks_say_themselves_what_to_write_and_where(tmp_path, mode):
    stored_run(tmp_path, seed=5, nodes="", export_dir="a")
    words = {"nodes": "test", "export_dir": "b", "export_name": "c"}
    words["predictions"] = "d.parquet"
    given = [f"--{name}={value}" for name, value in words.items()]
    config = parse(
        f"--mode={mode}", f"--output_dir={tmp_path}", "--embeddings", *given
    )
    assert (config.mode, config.seed, config.embeddings) == (mode, 5, True)
    assert {name: getattr(config, name) for name in words} == words
    message = refused(f"--mode={mode}", f"--output_dir={tmp_path}", "--seed=6")
    assert "--seed=6 contradicts" in message


@pytest.mark.parametrize("mode", MODES_ON_A_RUN)
def test_evaluation_needs_the_folder_of_a_run(tmp_path, mode):
    assert f"--mode={mode} needs --output_dir" in refused(f"--mode={mode}")
    message = refused(f"--mode={mode}", f"--output_dir={tmp_path}")
    assert str(tmp_path / "config.json") in message
    assert "expected the folder of a finished run" in message


def test_run_from_before_some_flags_has_their_defaults(tmp_path, said):
    stored_run(tmp_path, seed=5)
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    for name in ("precompute", "link_ends"):
        del settings[name]
    path.write_text(json.dumps(settings))
    words = ("--mode=evaluate", f"--output_dir={tmp_path}")
    config = parse(*words)
    assert (config.seed, config.precompute, config.link_ends) == (
        5,
        False,
        "auto",
    )
    assert said == [
        f"{path}: from before some flags: taken as --precompute=False "
        "--link_ends=auto"
    ]
    message = refused(*words, "--link_ends=ids")
    assert "--link_ends=ids contradicts" in message


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_setting_that_every_run_had_must_be_there(tmp_path, name):
    settings = {**Config().as_dict()}
    del settings[name]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    message = refused("--mode=evaluate", f"--output_dir={tmp_path}")
    assert f"config.json: has no {name}; expected" in message


def test_setting_that_no_flag_has_is_refused_by_name(tmp_path):
    settings = {**Config().as_dict(), "momentum": 0.9}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    message = refused("--mode=evaluate", f"--output_dir={tmp_path}")
    assert "config.json: has momentum, unknown to this version" in message


@pytest.mark.parametrize("value", [0, "many"])
def test_settings_of_a_run_are_checked_too(tmp_path, value):
    settings = {**Config().as_dict(), "batch_size": value}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    message = refused("--mode=evaluate", f"--output_dir={tmp_path}")
    assert str(tmp_path / "config.json") in message


# In a process of its own.


def test_bad_flags_end_with_status_1_and_one_line(tmp_path):
    missing = command("--flagfile=flags/nosuch.cfg", cwd=tmp_path)
    misspelt = command(flag_file(tmp_path, "--datset=cora"))
    for result, expected in (
        (missing, str(tmp_path / "flags" / "nosuch.cfg")),
        (misspelt, "Did you mean: dataset"),
    ):
        assert result.returncode == 1
        assert not result.stdout
        assert expected in result.stderr
        assert result.stderr.startswith("Flags parsing error: ")
        assert "Traceback" not in result.stderr


SLOW_IMPORT = """
import sys, time
print("importing", flush=True)
try:
    time.sleep(60)
except BaseException:  # As modules of others do.
    pass
"""


@pytest.mark.parametrize("start", [MODULE, SCRIPT])
@pytest.mark.parametrize(
    "mode, slow", [("train", "tensorflow"), ("convert", "scipy")]
)
def test_interrupt_during_imports_ends_in_one_line(tmp_path, start, mode, slow):
    (tmp_path / f"{slow}.py").write_text(SLOW_IMPORT)
    process = subprocess.Popen(
        [sys.executable, *start, f"--mode={mode}", "--output_dir=run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        # A job in the background is started with interrupts left out.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "interrupted; nothing was begun"
    assert "Traceback" not in said


def test_interrupt_after_imports_is_told_with_what_is_kept(monkeypatch, capsys):
    def interrupt(config):
        main._raise_interrupts()
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()

    from adaptive_gcn import loading

    monkeypatch.setattr(loading, "convert", interrupt)
    before = signal.signal(signal.SIGINT, main._end_at_once)
    try:
        with pytest.raises(SystemExit) as stop:
            main.main(Config(mode="convert", output_dir="x"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.value.code == 130
    assert "nothing half-written is left" in capsys.readouterr().err


@pytest.mark.parametrize("start", [MODULE, SCRIPT])
def test_help_lists_every_setting_once(start):
    result = command("--help", start=start)
    for field in dataclasses.fields(Config):
        pattern = rf"--(\[no\])?{field.name}: "
        assert len(re.findall(pattern, result.stdout)) == 1


def test_train_then_evaluate_gives_the_same_numbers(tmp_path, capsys):
    folder = tmp_path / "run"
    trained = command(*SMALL, "--seed=3", f"--output_dir={folder}", "--seed=4")
    assert trained.returncode == 0, trained.stderr
    record = json.loads((folder / "result.json").read_text())
    assert trained.stdout.startswith(
        f"test accuracy {record['test_accuracy']:.4f}, validation accuracy"
    )
    assert "--seed is given more than once: 4 counts" in trained.stderr
    stored = json.loads((folder / "config.json").read_text())
    assert stored["seed"] == 4
    assert f"settings: {json.dumps(stored)}" in trained.stderr
    assert "epoch 2/2: " in trained.stderr

    main.main(parse("--mode=evaluate", f"--output_dir={folder}"))
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((folder / "evaluation.json").read_text())
    assert found["test"]["accuracy"] == record["test_accuracy"]
    assert found["test"]["macro_f1"] == record["macro_f1"]
    assert found["validation"]["loss"] == record["val_loss"]
    assert found["validation"]["accuracy"] == record["val_accuracy"]


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--device=gpu:77"], "ConfigError: --device=gpu:77: this machine "),
        (["--output_dir=/proc/x"], "RunFolderError: --output_dir=/proc/x: "),
    ],
)
def test_failed_run_ends_with_status_1_and_a_line_that_says_why(
    tmp_path, monkeypatch, capsys, words, expected
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main.main(parse(*SMALL, *words))
    assert stop.value.code.startswith(expected)
    assert "\n" not in stop.value.code
    assert not capsys.readouterr().out


def test_error_of_several_lines_is_told_in_one(tmp_path, monkeypatch):
    """Keras says of weights that do not fit, over six lines, which."""
    folder = tmp_path / "run"
    main.main(parse(*SMALL, f"--output_dir={folder}"))
    with h5py.File(folder / "best.weights.h5", "w"):
        pass
    with pytest.raises(SystemExit) as stop:
        main.main(parse("--mode=predict", f"--output_dir={folder}"))
    assert stop.value.code.startswith("RunFolderError: ")
    assert "best.weights.h5: not the weights of this network" in stop.value.code
    assert "\n" not in stop.value.code


def test_failed_run_is_told_to_the_shell(tmp_path):
    result = command(
        *SMALL,
        "--learning_rate=1e30",
        f"--output_dir={tmp_path}",
        CUDA_VISIBLE_DEVICES="",
    )
    assert result.returncode == 1
    assert "TrainingDivergedError: training diverged: epoch 1, step" in (
        result.stderr
    )
    assert "Traceback" not in result.stderr
    assert not result.stdout
    assert not (tmp_path / "result.json").exists()
