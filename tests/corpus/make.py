"""Writes the corpus anew: hostile files, one folder for each reader.

python tests/corpus/make.py
"""

import io
import json
import os
import pathlib
import pickle
import zipfile
import zlib

HERE = pathlib.Path(__file__).parent


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def npy(shape, dtype="<f8", content=b""):
    """A .npy file that promises a shape."""
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape})
    header = header.encode() + b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return (
        b"\x93NUMPY\x01\x00"
        + len(header).to_bytes(2, "little")
        + header
        + (content)
    )


def npz(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def bomb():
    """30 kB that become 30 MB, under a header that promises 8 TB."""
    zeros = bytes(30 * 2**20)
    return npz(format=npy((2**40,), content=zeros), shape=npy((2,), "<i8"))


def checkpoint(head, content=b""):
    """A file with the right checksum."""
    body = head + b"\n" + content
    check = {"bytes": len(body), "crc32": zlib.crc32(body)}
    first = b"adaptive_gcn checkpoint 1\n"
    return first + json.dumps(check).encode() + b"\n" + body


def layout(kind, shape):
    return json.dumps({"values": {}, "arrays": {"a": [kind, shape]}}).encode()


FILES = {
    "pickle": {
        "system.pickle": pickle.dumps(Call(os.system, "touch owned"), 2),
        "mkdir.pickle": pickle.dumps(Call(os.mkdir, "owned"), 4),
        "eval.pickle": pickle.dumps(Call(eval, "open('owned', 'w')"), 2),
        "memo.pickle": b"\x80\x02]r\xff\xff\xff\xff.",
        "deep.pickle": b"\x80\x02}" + b")" + b"\x85" * 10**4 + b"K\x01s.",
        "long.pickle": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x00x.",
    },
    "npz": {
        "bomb.npz": bomb(),
        "object.npz": npz(format=npy((1,), "|O", pickle.dumps([1]))),
        "promise.npz": npz(
            format=npy((), "|S3", b"csr"),
            shape=npy((2,), "<i8", b"\x02" + bytes(15)),
            indptr=npy((2**50,), "<i8"),
        ),
        "negative.npz": npz(format=npy((-1,), "<i8")),
    },
    "npy": {
        "promise.npy": npy((2**40, 2**20), "<f4"),
        "overflow.npy": npy((2**62, 2**62), "<f4"),
        "object.npy": npy((1, 1), "|O", pickle.dumps(Call(os.mkdir, "owned"))),
        "code.npy": npy("__import__('os').mkdir('owned')", "<f4"),
    },
    "node_link": {
        "deep.json": b'{"nodes": ' + b"[" * 10**5,
        "digits.json": b'{"nodes": [{"id": ' + b"9" * 10**4 + b"}]}",
        "none.json": b'{"nodes": null, "links": {}}',
        "surrogate.json": b'{"nodes": [{"id": "\\ud800"}], "links": []}',
    },
    "parquet": {
        "thrift.parquet": b"PAR1" + b"\xff" * 16 + b"\x10\0\0\0PAR1",
    },
    "musae": {
        "latin.csv": b"id,facebook_id,page_name,page_type\n0,5,caf\xe9,tv\n",
    },
    "manifest": {
        "empty.json": b"{}",
        "list.json": b"[]",
        "deep.json": b"[" * 10**5,
        "outside.json": b'{"files": {"../../etc/passwd": {"bytes": 1}}}',
    },
    "checkpoint": {
        "huge": checkpoint(layout("float64", [2**40, 2**20])),
        "negative": checkpoint(layout("float64", [-1, -8]), bytes(64)),
        "object": checkpoint(layout("object", [1]), bytes(8)),
        "text": checkpoint(layout("<U9", [1]), bytes(36)),
        "deep": checkpoint(b"[" * 10**5),
        "list": checkpoint(b"[]"),
        "digits": checkpoint(b"9" * 10**4),
        "shape": checkpoint(layout("float64", 3)),
        "behind": checkpoint(layout("float64", []), bytes(9)),
    },
}

if __name__ == "__main__":
    for folder, files in FILES.items():
        (HERE / folder).mkdir(exist_ok=True)
        for name, content in files.items():
            (HERE / folder / name).write_bytes(content)
