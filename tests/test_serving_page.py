"""Every command, request and program of docs/serving.md, in its order."""

import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import tensorflow as tf

from tests import serving

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)\n```", PAGE, re.DOTALL)


COMMANDS = "\n".join(blocks("bash")).splitlines()
EXCHANGES = [*zip(blocks("json")[::2], blocks("json")[1::2], strict=True)]


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """A function that runs a command where the ones before it were run."""
    folder = tmp_path_factory.mktemp("page")
    here = pathlib.Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{here}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }

    def run(command):
        result = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            check=False,
        )
        assert result.returncode == 0, result.stderr[-2000:]
        return result.stdout

    run.folder = folder
    return run


@pytest.fixture(scope="module")
def outputs(shell):
    """What the commands that need no server print, by command."""
    return {
        command: shell(command)
        for command in COMMANDS
        if not command.startswith(("docker", "curl"))
    }


@pytest.fixture(scope="module")
def model(outputs, shell):
    return tf.saved_model.load(str(shell.folder / "models/papers/1"))


@pytest.fixture(scope="module")
def address(model):
    with serving.rest_server(model, "papers") as address:
        yield address


def matches(found, shown):
    """Equal, but for what training on another machine may change."""
    if isinstance(shown, dict):
        assert found.keys() == shown.keys()
        for key in shown:
            matches(found[key], shown[key])
    elif isinstance(shown, list):
        assert len(found) == len(shown)
        for pair in zip(found, shown, strict=True):
            matches(*pair)
    else:
        near = isinstance(shown, float)
        assert found == (pytest.approx(shown, abs=0.05) if near else shown)


def test_page_has_what_is_to_be_run():
    assert [word for word in COMMANDS if word.startswith("docker")]
    modes = re.findall(r"--mode=(\w+)", "\n".join(COMMANDS))
    assert modes == ["evaluate", "predict", "export"]
    assert len(EXCHANGES) == 7
    assert len(blocks("python")) == 2


@pytest.mark.slow
def test_commands_run_and_leave_what_is_said(outputs, shell):
    said = [*outputs.values()]
    assert json.loads(said[1])["train"]["confusion"]
    head = (shell.folder / "runs/papers/predictions.csv").read_text()
    assert head.startswith('"id","class","probability","embedding_0"')
    assert "is in models/papers as version 1: serving_default" in said[3]
    assert "inputs['node_ids'] tensor_info" in said[4]


def described(cell):
    """Names of inputs or outputs and their types, from a cell of the table."""
    words = re.findall(r"`(\w+)`(?: \[[^]]*\])?(?: (\w+))?", cell)
    return {name: kind or None for name, kind in words}


@pytest.mark.slow
def test_table_of_signatures_is_that_of_the_model(model):
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert {name for name, *_ in rows} == model.signatures.keys()
    inputs, outputs = {}, {}
    for name, takes, gives in rows:
        function = model.signatures[name]
        base = inputs.get(name.removesuffix("_weighted"), {})
        inputs[name] = described(takes) | (base if "the same" in takes else {})
        outputs[name] = described(gives)
        if "serving_default" in outputs[name]:
            outputs[name] = outputs["serving_default"]
        for shown, found in (
            (inputs[name], function.structured_input_signature[1]),
            (outputs[name], function.structured_outputs),
        ):
            assert shown.keys() == found.keys()
            for key, kind in shown.items():  # Ids are of the user's type.
                assert kind in (None, found[key].dtype.name)


@pytest.mark.slow
def test_command_that_asks_for_three_nodes(shell, address):
    (command,) = (word for word in COMMANDS if word.startswith("curl"))
    request, shown = EXCHANGES[0]
    assert request in command
    command = command.replace("http://localhost:8501", address)
    matches(json.loads(shell(command)), json.loads(shown))


@pytest.mark.slow
@pytest.mark.parametrize("request_, shown", EXCHANGES)
def test_request_gets_the_answer_shown(address, request_, shown):
    url = f"{address}/v1/models/papers:predict"
    shown = json.loads(shown)
    try:
        with urllib.request.urlopen(url, request_.encode()) as response:
            matches(json.load(response), shown)
    except urllib.error.HTTPError as error:
        assert error.code == 400
        assert shown["error"] in json.load(error)["error"]
    else:
        assert "error" not in shown


@pytest.mark.slow
def test_programs_run(model, shell, monkeypatch, capsys):
    monkeypatch.chdir(shell.folder)
    client, loader = blocks("python")
    with serving.grpc_server(model) as address:
        exec(client.replace("localhost:8500", address), {})
    shown = json.loads(EXCHANGES[0][1])["predictions"]
    names = [row["class_name"].encode() for row in shown]
    assert capsys.readouterr().out.strip() == str(names).replace(",", "")
    names = {}
    exec(loader, names)
    found = names["answer"]["probabilities"].numpy().tolist()
    matches(found, [row["probabilities"] for row in shown])


@pytest.mark.slow
def test_keras_does_not_load_it_as_the_page_says(outputs, shell, monkeypatch):
    monkeypatch.chdir(shell.folder)
    (words,) = re.findall(r"Not `keras\.(.*?)`", PAGE)
    import keras

    assert words == 'models.load_model("models/papers/1")'
    with pytest.raises(ValueError, match="File format not supported"):
        keras.models.load_model("models/papers/1")
