"""Version folders: numbers, names until they are full, failures."""

import os
import stat

import pytest

from adaptive_gcn import versions


def export(base, text="x"):
    with versions.unfinished(base) as folder:
        (folder / "model").write_text(text)
        assert not folder.name.isdigit()
        return versions.publish(folder)


def test_each_export_is_the_next_number(tmp_path):
    base = tmp_path / "deep" / "name"
    assert versions.latest(base) == 0
    assert export(base, "first") == 1
    assert export(base, "second") == 2
    assert sorted(os.listdir(base)) == ["1", "2"]
    assert (base / "1" / "model").read_text() == "first"
    assert versions.latest(base) == 2


def test_next_number_is_above_all_others(tmp_path):
    for name in ("7", "12", "draft", "3.5"):
        (tmp_path / name).mkdir()
    assert export(tmp_path) == versions.latest(tmp_path) == 13


def test_names_that_the_server_takes_for_no_version_do_not_count(tmp_path):
    """It reads them as 64-bit integers, and serves the highest of those."""
    for name in ("007", "-9", "٣", str(versions.LARGEST + 1)):
        (tmp_path / name).mkdir()
    assert export(tmp_path) == 8
    (tmp_path / str(versions.LARGEST)).mkdir()
    with pytest.raises(OSError, match="holds version 9223372036854775807"):
        export(tmp_path)
    assert not [*tmp_path.glob(".part-*")]


def test_failed_export_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        with versions.unfinished(tmp_path) as folder:
            (folder / "half").write_text("x")
            raise KeyboardInterrupt
    assert not os.listdir(tmp_path)


def test_two_exports_at_once_get_two_numbers(tmp_path):
    with versions.unfinished(tmp_path) as folder:
        (folder / "model").write_text("slow")
        assert export(tmp_path, "fast") == 1
        assert versions.publish(folder) == 2
    assert (tmp_path / "1" / "model").read_text() == "fast"
    assert (tmp_path / "2" / "model").read_text() == "slow"


def test_number_taken_after_it_was_looked_up_is_left_alone(
    tmp_path, monkeypatch
):
    export(tmp_path, "theirs")
    seen = iter([0, 1])
    monkeypatch.setattr(versions, "latest", lambda base: next(seen))
    export(tmp_path, "ours")
    assert (tmp_path / "1" / "model").read_text() == "theirs"
    assert (tmp_path / "2" / "model").read_text() == "ours"


def test_folder_can_be_read_by_a_server_of_another_user(tmp_path):
    export(tmp_path)
    assert stat.S_IMODE((tmp_path / "1").stat().st_mode) == 0o755
