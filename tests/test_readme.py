"""What the README shows can be run."""

import re
from pathlib import Path

import pytest
from absl.testing import flagsaver

from adaptive_gcn import config, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands():
    """Flags of every training command of the README and the flag files."""
    texts = [README, *(p.read_text() for p in (ROOT / "flags").glob("*.cfg"))]
    lines = re.findall(
        r"python -m adaptive_gcn\.main(.*)$", "\n".join(texts), re.MULTILINE
    )
    needs_run = tuple(f"--mode={mode}" for mode in config.MODES_ON_A_RUN)
    return sorted(
        {
            line.strip()
            for line in lines
            if not line.strip().startswith(needs_run)
        }
    )


@pytest.mark.parametrize("words", commands())
def test_shown_command_has_flags_that_exist(words, monkeypatch):
    monkeypatch.chdir(ROOT)
    with flagsaver.flagsaver():
        main.parse_flags(["main", *words.split()])


def test_there_are_commands_to_check():
    assert any("--flagfile=flags/cora.cfg" in line for line in commands())


def test_shown_program_runs(tmp_path, monkeypatch, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program.replace("epochs=50", "epochs=2"), names)
    assert "test accuracy" in capsys.readouterr().out
    assert names["logits"].shape == (len(names["graph"].test_nodes), 7)


def test_equation_table_names_tests_that_exist():
    sources = "".join(p.read_text() for p in (ROOT / "tests").glob("*.py"))
    named = re.findall(r"`(test_\w+)`", README)
    assert len(named) > 8
    assert [name for name in named if f"def {name}(" not in sources] == []
