"""Size and SHA-256 of every Planetoid file, and their verification.

The values are those of the files that Yang et al. published with "Revisiting
Semi-Supervised Learning with Graph Embeddings", ICML 2016.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os

from adaptive_gcn.errors import DataError

PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")

_CORA = """
x 22119 23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab
y 4054 94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1
tx 148025 b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a
ty 28135 41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad
allx 257305 9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543
ally 47959 2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71
graph 59847 58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d
test.index 5000 297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875
"""
_CITESEER = """
x 31087 d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6
y 3014 8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924
tx 260321 539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21
ty 24135 55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce
allx 595021 2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668
ally 55623 f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95
graph 61987 d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7
test.index 5000 2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4
"""
_PUBMED = """
x 23172 fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33
y 854 e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3
tx 405505 4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d
ty 12135 ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd
allx 7578385 508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e
ally 224739 0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e
graph 471808 5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9
test.index 6000 b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5
"""


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """Size in bytes and SHA-256 in hexadecimal digits."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Fingerprint:
        """The fingerprint of this content."""
        return cls(len(content), hashlib.sha256(content).hexdigest())


class ChecksumError(DataError):
    """A file is not the one that was published."""


def file_names(dataset: str) -> tuple[str, ...]:
    """The eight files of a data set in the Planetoid format."""
    return tuple(f"ind.{dataset}.{part}" for part in PARTS)


def _parse(dataset: str, table: str) -> dict[str, Fingerprint]:
    rows = (line.split() for line in table.split("\n") if line)
    return {
        f"ind.{dataset}.{part}": Fingerprint(int(size), sha256)
        for part, size, sha256 in rows
    }


FINGERPRINTS = {
    **_parse("cora", _CORA),
    **_parse("citeseer", _CITESEER),
    **_parse("pubmed", _PUBMED),
}


def verify(content: bytes, source: str) -> None:
    """Check that the content of a file is the published one.

    Line ends, blanks, comments and a byte order mark of `test.index` do not
    count, because editors and version control change them.

    Args:
        content: The bytes of the file.
        source: Path or address, for the message; its last part must be a name
            in `FINGERPRINTS`.

    Raises:
        ChecksumError: If it is not; the message has sizes, checksums and what
            to do.
        KeyError: If the name is not in `FINGERPRINTS`.
    """
    expected = FINGERPRINTS[os.path.basename(source)]
    got = Fingerprint.of(content)
    if expected == got:
        return
    if source.endswith(".index"):
        if expected == Fingerprint.of(_canonical_index(content)):
            return
    raise ChecksumError(
        f"{source}: not the published file; {_looks_like(content, expected)}\n"
        f"  expected: {expected.size} bytes, SHA-256 {expected.sha256}\n"
        f"  received: {got.size} bytes, SHA-256 {got.sha256}\n"
        "  Delete it, and it is fetched anew; or put the right file there. "
        "To read files of your own, use "
        "adaptive_gcn.datasets.planetoid.read_planetoid(..., verify=False)."
    )


def index_tokens(content: bytes) -> list[list[bytes]]:
    """The words of each line, without byte order mark and comments."""
    lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
    return [line.partition(b"#")[0].split() for line in lines]


def _canonical_index(content: bytes) -> bytes:
    tokens = [word for line in index_tokens(content) for word in line]
    return b"".join(word + b"\n" for word in tokens)


def _looks_like(content: bytes, expected: Fingerprint) -> str:
    if not content:
        return "it is empty"
    if content.startswith(b"version https://git-lfs"):
        return "it is a git-lfs pointer (`git lfs pull` gets the content)"
    if content.lstrip()[:1] == b"<":
        return "it looks like a web page"
    if len(content) < expected.size:
        return "it is shorter, as if the download had been cut off"
    return "its content differs"
