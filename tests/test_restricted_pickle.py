"""The pickle reader: the same values as `pickle`, and nothing but values."""

import collections
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn.datasets.restricted_pickle import (
    MalformedPickleError,
    UnsafePickleError,
    loads,
)

DOCUMENTED = (MalformedPickleError, UnsafePickleError)
PROTOCOLS = (2, 3, 4)

# Written by hand as Python 2 does: strings, not bytes or unicode.
PYTHON_2_ARRAY = (
    b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02"
    b"K\x00\x85U\x01b\x87Rq\x03(K\x01K\x01K\x02\x86cnumpy\ndtype\nq\x04U\x02i4"
    b"K\x00K\x01\x87Rq\x05(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK"
    b"\x00tb\x89U\x08\x01\x00\x00\x00\xff\xff\xff\xfftb."
)
PYTHON_2_GRAPH = (
    b"\x80\x02ccollections\ndefaultdict\nq\x01c__builtin__\nlist\nq\x02\x85Rq"
    b"\x03(K\x00]q\x04(K\x01M\x2c\x01eK\x01]q\x05K\x00au."
)

MATRIX = sparse.csr_matrix(np.array([[0, 2.5, 0], [1, 0, 3]], np.float32))
GRAPH = collections.defaultdict(list, {0: [1, 300], 1: [0], 70000: []})
SMALL = {
    "array": np.arange(6, dtype=np.int32).reshape(2, 3),
    "matrix": MATRIX,
    "graph": GRAPH,
}


def array_state(raw: bytes, shape: tuple[int, ...]) -> bytes:
    """A pickled int32 array with any raw content and shape."""
    array = pickle.dumps(np.array([7], np.int32), 4)
    whole = pickle.dumps((1,), 4)[11:-2]  # The tuple, without frame and stop.
    assert whole in array
    array = array[:2] + array[11:]  # The frame would have another length.
    array = array.replace(whole, pickle.dumps(shape, 4)[11:-2], 1)
    content = b"C\x04\x07\x00\x00\x00"
    assert content in array
    return array.replace(content, b"C" + bytes([len(raw)]) + raw)


class Call:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_python_2_pickles():
    array = loads(PYTHON_2_ARRAY, "file")
    np.testing.assert_array_equal(array, [[1, -1]])
    assert array.dtype == np.int32
    assert loads(PYTHON_2_GRAPH, "file") == {0: [1, 300], 1: [0]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([[1, 2]], dtype=">i4"),
        np.array([[True, False]]),
        np.empty((3, 0)),
        np.arange(200, 456).astype(np.uint8),  # Every byte value.
    ],
)
def test_arrays(array, protocol):
    read = loads(pickle.dumps(array, protocol), "file")
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype.newbyteorder("=")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_matrix_and_graph(protocol):
    for matrix in (MATRIX, MATRIX * 0, sparse.csr_array((2, 5), dtype="f4")):
        read = loads(pickle.dumps(matrix, protocol), "file")
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read.toarray(), matrix.toarray())
    assert loads(pickle.dumps(GRAPH, protocol), "file") == dict(GRAPH)
    assert loads(pickle.dumps(dict(GRAPH), protocol), "file") == dict(GRAPH)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_command_is_not_executed(tmp_path, protocol):
    target = tmp_path / "executed"
    content = pickle.dumps(Call(os.system, f"touch '{target}'"), protocol)
    with pytest.raises(UnsafePickleError, match=r"file: .*system"):
        loads(content, "file")
    assert not target.exists()
    pickle.loads(content)  # The control: it is a working attack.
    assert target.exists()


@pytest.mark.parametrize(
    "value, named",
    [
        (Call(eval, "1"), "eval"),
        (Call(getattr, "", "join"), "getattr"),
        ({0: [Call(eval, "1")]}, "eval"),
        (np.dtype, None),
        (collections.OrderedDict(), "collections.OrderedDict"),
        ({1, 2}, None),
        (1.5, "BINFLOAT"),
        (2**70, "LONG1"),
    ],
)
def test_other_objects_are_refused(value, named):
    with pytest.raises(DOCUMENTED, match=named):
        loads(pickle.dumps(value, 4), "file")


def test_protocol_5_is_named():
    with pytest.raises(UnsafePickleError, match="protocol 2 to 4"):
        loads(pickle.dumps(SMALL["array"], 5), "file")


@pytest.mark.parametrize(
    "array", [np.array([{}]), np.array(["a"]), np.array([1], "M8[s]")]
)
def test_arrays_of_other_than_numbers_are_refused(array):
    with pytest.raises(DOCUMENTED, match="not a number|expected"):
        loads(pickle.dumps(array, 4), "file")


@pytest.mark.parametrize(
    "part, value",
    [
        ("indices", np.array([0, 1, 99], np.int32)),
        ("indices", np.array([0, 1, -1], np.int32)),
        ("indices", np.array([0.0, 1.0, 2.0])),
        ("indices", np.array([0, 1], np.int32)),
        ("indptr", np.array([0, 3, 1], np.int32)),
        ("indptr", np.array([0, 1, 2**30], np.int32)),
        ("indptr", np.array([0, 1], np.int32)),
        ("data", np.ones((3, 1), np.float32)),
        ("data", np.dtype("f4")),
        ("_shape", (2, 2)),
        ("_shape", (6,)),
        ("_shape", (2, -3)),
        ("_shape", "23"),
    ],
)
def test_inconsistent_matrix_is_refused(part, value):
    matrix = MATRIX.copy()
    setattr(matrix, part, value)
    with pytest.raises(MalformedPickleError, match="file: "):
        loads(pickle.dumps(matrix, 2), "file")


def test_keys_of_other_types_are_not_hashed():
    matrix = MATRIX.copy()
    vars(matrix)[(1,)] = 1
    with pytest.raises(MalformedPickleError, match="int, received tuple"):
        loads(pickle.dumps(matrix, 2), "file")


@pytest.mark.parametrize("shape", [(2,), (-1,), (1, -1), (2**31 - 1,) * 2])
def test_shape_must_fit_the_content(shape):
    good = loads(array_state(b"\x07\x00\x00\x00", (1, 1)), "file")
    np.testing.assert_array_equal(good, [[7]])
    with pytest.raises(MalformedPickleError):
        loads(array_state(b"\x07\x00\x00\x00", shape), "file")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"\x80\x02.",
        b"<html>",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"\x80\x02Ptheir id\n.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02h\x07.",
        b"\x80\x02]K\x01.",
        b"\x80\x02}K\x01s.",
        b"\x80\x02" + b"(" * 1000 + b".",
        pickle.dumps({"a": [1]}, 2),
        pickle.dumps({0: [True]}, 2),
        pickle.dumps({0: ["1"]}, 2),
        pickle.dumps({0: 1}, 2),
        pickle.dumps(sparse.csr_array(np.array([0.0, 1.0])), 2),
        pickle.dumps([1], 2),
    ],
)
def test_malformed(content):
    with pytest.raises(DOCUMENTED, match="^file: "):
        loads(content, "file")


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x8e" + b"\xff" * 7 + b"\x00x.",  # BINBYTES8 of 2^56 bytes.
        b"\x80\x03B\xff\xff\xff\xffx.",  # BINBYTES of 4 GiB.
        b"\x80\x02]r\xff\xff\xff\xff.",  # A memo of 2^32 entries.
        b"\x80\x02}" + b")" + b"\x85" * 10**5 + b"K\x01s.",  # A deep key.
        pickle.dumps(
            {key: key_list for key_list in [[1] * 999] for key in range(9999)},
            2,
        ),  # One list 9999 times.
    ],
    ids=["bytes8", "bytes", "memo", "deep", "shared"],
)
def test_bombs_are_refused_cheaply(content):
    tracemalloc.start()
    with pytest.raises(DOCUMENTED):
        loads(content, "file")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000 + 200 * len(content)


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("protocol", [2, 4])
def test_mutations_raise_only_documented_errors(kind, protocol):
    content = pickle.dumps(SMALL[kind], protocol)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        try:
            loads(_mutated(content, rng), "file")
        except DOCUMENTED:
            refused += 1
    assert refused > 100


def _mutated(content: bytes, rng: np.random.Generator) -> bytes:
    mutated = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(mutated)))
        operation = rng.integers(4)
        if operation == 0:
            mutated[at] = rng.integers(256)
        elif operation == 1:
            del mutated[at : at + int(rng.integers(1, 5))]
        elif operation == 2:
            other = int(rng.integers(len(mutated)))
            mutated[at:at] = mutated[other : other + 6]
        else:
            mutated[at:] = mutated[at : at + int(rng.integers(200))]
        mutated = mutated or bytearray(b".")
    return bytes(mutated)


def test_every_truncation_is_refused():
    for value in SMALL.values():
        content = pickle.dumps(value, 2)
        for length in range(len(content)):
            with pytest.raises(MalformedPickleError):
                loads(content[:length], "file")
