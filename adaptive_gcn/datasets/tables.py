"""Tables of a user's: .csv, .tsv, .txt and .parquet, read by pyarrow.

A .csv or .tsv may begin with lines of comments ("#"), a .txt may hold them
anywhere; its columns are parted by blanks and tabs. Every text table is
UTF-8, with or without a byte order mark, with any line ends; empty lines do
not count.
"""

from __future__ import annotations

import codecs
import collections
import csv
import dataclasses
import io
import itertools
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.raw_files import (
    ADVICE,
    known_content,
    looks_like,
)
from adaptive_gcn.errors import DataError

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
NAMES_ADVICE = (
    "; if the first line has the names of the columns, say which is which "
    "(--columns=source=...,target=...)"
)
_HEAD_BYTES = 2**20
_UNREADABLE = (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError)
_INTEGER = re.compile(r"-?[0-9]+")
_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANKS = " \t\r\n"
_WEB_PAGE = re.compile(rb"\s*<(!|\?|html|head)", re.IGNORECASE)
_NULLS = frozenset(pa_csv.ConvertOptions().null_values)
_TRUTHS = _NULLS.union(
    pa_csv.ConvertOptions().true_values, pa_csv.ConvertOptions().false_values
)
csv.field_size_limit(2**31 - 1)  # Pyarrow has no such limit.

# Whether the first row names the columns, given that row and the next.
HeaderRule = Callable[[list[str], list[str]], bool]
Kind = Literal["text", "number", "guess"]
KindRule = Callable[[Sequence[str]], Mapping[str, Kind]]


def always(first: list[str], second: list[str]) -> bool:
    """The header rule of tables that must have one."""
    return True


@dataclasses.dataclass(frozen=True)
class Table:
    """A table that was read.

    Attributes:
        path: Its file.
        columns: By name; by "0", "1", ... without header. Texts, numbers or,
            in Parquet, whatever is there.
        has_header: Whether the columns have names.
        place: Says where the user finds a row: the file and the line.
    """

    path: pathlib.Path
    columns: dict[str, pa.ChunkedArray]
    has_header: bool
    place: Callable[[int], str]

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))


def read_table(
    path: pathlib.Path,
    kinds_of: KindRule,
    faults: Faults,
    has_header: HeaderRule = always,
    multiline: bool = False,
) -> Table:
    """Read a table; rows with too many or too few columns become a fault.

    Args:
        path: A file with one of `SUFFIXES`.
        kinds_of: What the columns, by name, are read as: "text", "number", or
            "guess" for numbers where the first values are numbers.
        faults: Gets what is wrong with single rows and values.
        has_header: Tells, for a text table, whether there is a header.
        multiline: Whether quoted texts may hold line ends; slower.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it is not such a table.
    """
    try:
        if path.suffix == ".parquet":
            return _read_parquet(path)
        return _read_text(
            _Text.of(path, has_header, multiline), kinds_of, faults
        )
    except (*_UNREADABLE, UnicodeDecodeError) as error:
        reason = _undecodable(path) or str(error).partition("\n")[0]
        raise DataError(
            f"{path}: expected a table in UTF-8, or Parquet. Received: "
            f"{reason}; save it again in that form"
        ) from error


def _check_encoding(path: pathlib.Path) -> None:
    """Raise what is no UTF-8 here, as pyarrow prints it for an odd row."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        while block := file.read(_HEAD_BYTES):
            decoder.decode(block)
    decoder.decode(b"", final=True)


def _undecodable(path: pathlib.Path) -> str | None:
    """The first line of a text table that is no UTF-8."""
    if path.suffix == ".parquet":
        return None
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                around = line[max(0, error.start - 20) : error.start + 20]
                return f"line {number}, which is no UTF-8: {around!r}"
    return None


def _read_parquet(path: pathlib.Path) -> Table:
    _check_content(path, parquet=True)
    try:
        _check_names(path, pa_parquet.read_schema(path).names)
        table = pa_parquet.read_table(path)
    except OSError as error:
        if error.errno is not None:
            raise
        raise pa.ArrowInvalid(str(error)) from error  # Of damaged content.
    if not table.num_columns:
        raise DataError(f"{path}: has no columns; {ADVICE}")
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return Table(path, columns, True, f"{path.name} row {{}}".format)


def _check_names(path: pathlib.Path, names: Sequence[str]) -> None:
    counts = collections.Counter(names)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise DataError(
            f"{path}: columns of one name: {', '.join(sorted(repeated))}; "
            "rename one"
        )


def _check_content(path: pathlib.Path, parquet: bool = False) -> None:
    """Refuse what only has the name of a table."""
    with path.open("rb") as file:
        head = file.read(64)
    strange = (
        not head.startswith(b"PAR1")
        if parquet
        else (
            not head.strip()
            or known_content(head)
            or _WEB_PAGE.match(head)
            or head.startswith(b"version https://git-lfs")
        )
    )
    if strange:
        raise DataError(
            f"{path}: expected a table. Received: {looks_like(head)}, "
            f"{path.stat().st_size} bytes; {ADVICE}"
        )


@dataclasses.dataclass(frozen=True)
class _Text:
    """What the first lines of a text table tell."""

    path: pathlib.Path
    delimiter: str
    names: list[str]
    has_header: bool
    n_skipped: int  # Lines before the first row, with the header.
    multiline: bool
    n_head: int  # Bytes that were needed for this.

    @classmethod
    def of(
        cls, path: pathlib.Path, has_header: HeaderRule, multiline: bool
    ) -> _Text:
        _check_content(path)
        _check_encoding(path)
        head = _head(path)
        # A head may end within a letter of several bytes.
        whole = head[: head.rfind(b"\n") + 1] or head
        lines = _LINE_END.split(whole.decode("utf-8-sig"))
        ahead = itertools.takewhile(_is_comment, lines)
        n_ahead = len(list(ahead))
        lines = [line for line in lines[n_ahead:] if not _is_comment(line)]
        if not lines:
            raise DataError(f"{path}: has no rows; {ADVICE}")
        delimiter = _delimiter(path, lines[0])
        rows = list(
            csv.reader(
                map(_squeezed(delimiter), lines[:2]), delimiter=delimiter
            )
        )
        first = [name.strip() for name in rows[0]]
        named = has_header(first, rows[1] if len(rows) > 1 else [])
        names = first if named else [str(i) for i in range(len(first))]
        _check_names(path, names)
        if named and len(lines) == 1 and whole[-1:] not in b"\r\n":
            raise DataError(f"{path}: has a header and no rows; {ADVICE}")
        skipped = n_ahead + named
        return cls(path, delimiter, names, named, skipped, multiline, len(head))

    @property
    def is_loose(self) -> bool:
        """Whether blanks and tabs part the columns."""
        return self.delimiter == " "

    def block_size(self, usual: int) -> int:
        """Bytes that pyarrow takes at a time; they must hold a whole row."""
        return max(usual, 4 * self.n_head if self.n_head > _HEAD_BYTES else 0)

    def source(self) -> Any:
        """What pyarrow reads."""
        if not self.is_loose:
            return str(self.path)
        data = self.path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        data = data.replace(b"\t", b" ")
        # Lines keep their numbers up to the first row, which are skipped.
        head, body = _split_lines(data, self.n_skipped)
        if b"#" in body:
            body = re.sub(rb"(?m)^ *#.*$", b"", body)
        for pattern, new in ((rb"  +", b" "), (rb"(?m)^ | $", b"")):
            body = re.sub(pattern, new, body)
        return io.BytesIO(head + body)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line and fields of each row, slowly, for messages."""
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            lines: Iterator[str] = itertools.islice(file, self.n_skipped, None)
            if self.is_loose:
                lines = (
                    "\n" if _is_comment(line) else _squeezed(" ")(line)
                    for line in lines
                )
            reader = csv.reader(lines, delimiter=self.delimiter)
            before = 0
            for fields in reader:
                line, before = before + 1, reader.line_num
                if fields:
                    yield self.n_skipped + line, fields

    def place(self, row: int) -> str:
        """Where a row is that has all its columns."""
        n_columns = len(self.names)
        whole = (line for line, each in self.rows() if len(each) == n_columns)
        line = next(itertools.islice(whole, row, None), None)
        return f"{self.path.name} line {line}"

    def odd_place(self, i: int) -> str:
        """The i-th row that lacks columns or has too many."""
        n_columns = len(self.names)
        odd = (each for each in self.rows() if len(each[1]) != n_columns)
        line, fields = next(itertools.islice(odd, i, None), (None, []))
        return f"line {line}: {self.delimiter.join(fields)[:60]!r}"

    def parse_options(self, skip: Callable[[Any], str]) -> Any:
        return pa_csv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=self.multiline,
            invalid_row_handler=skip,
        )


def _head(path: pathlib.Path) -> bytes:
    """The first bytes of a file, with two line ends if it has them."""
    head = b""
    with path.open("rb") as file:
        while more := file.read(_HEAD_BYTES):
            head += more
            if head.count(b"\n") + head.count(b"\r") > 1:
                break
    return head


def _split_lines(data: bytes, n: int) -> tuple[bytes, bytes]:
    end = 0
    for _ in range(n):
        end = data.find(b"\n", end) + 1
    return data[:end], data[end:]


def _is_comment(line: str) -> bool:
    return line.lstrip(_BLANKS)[:1] in ("#", "")


def _delimiter(path: pathlib.Path, line: str) -> str:
    """By the name of the file, unless its first row says otherwise."""
    usual = {".csv": ",", ".tsv": "\t"}.get(path.suffix, " ")
    if usual == " ":
        return "," if "," in line else " "
    others = [each for each in ",;\t" if each in line]
    return others[0] if others and usual not in line else usual


def _squeezed(delimiter: str) -> Callable[[str], str]:
    if delimiter == " ":
        return lambda line: " ".join(re.findall(f"[^{_BLANKS}]+", line))
    return str


def _read_text(text: _Text, kinds_of: KindRule, faults: Faults) -> Table:
    odd: list[Any] = []
    kinds = kinds_of(text.names)
    fixed = {"text": pa.string(), "number": pa.float64()}
    types = {n: fixed[kind] for n, kind in kinds.items() if kind in fixed}
    others = [name for name in text.names if name not in types]
    if others:
        types |= _guessed(text, others)
    try:
        table = _parsed(text, types, odd)
    except pa.ArrowInvalid:
        odd.clear()
        table = _parsed(text, dict.fromkeys(text.names, pa.string()), odd)
        if not _bad_values(text, table, types, faults):
            raise
    if odd:
        faults.add(
            f"{text.path.name}: {len(odd)} lines do not have the "
            f"{len(text.names)} columns of the first one",
            "correct or drop these lines",
            range(len(odd)),
            lambda i: text.odd_place(i),
        )
    columns = dict(zip(text.names, table.columns, strict=True))
    return Table(text.path, columns, text.has_header, text.place)


def _parsed(text: _Text, types: dict[str, Any], odd: list[Any]) -> pa.Table:
    def skip(row: Any) -> str:
        odd.append(None)  # The row itself would be kept alive.
        return "skip"

    return pa_csv.read_csv(
        text.source(),
        pa_csv.ReadOptions(
            column_names=text.names,
            skip_rows=text.n_skipped,
            block_size=text.block_size(2**23),
        ),
        text.parse_options(skip),
        pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )


def _guessed(text: _Text, names: Sequence[str]) -> dict[str, Any]:
    """Types of columns by their first values: numbers are float64."""
    head = pa_csv.open_csv(
        text.source(),
        pa_csv.ReadOptions(
            column_names=text.names,
            skip_rows=text.n_skipped,
            block_size=text.block_size(_HEAD_BYTES),
        ),
        text.parse_options(lambda row: "skip"),
        pa_csv.ConvertOptions(include_columns=names),
    ).schema
    return {each.name: _plain_type(each.type) for each in head}


def _plain_type(found: Any) -> Any:
    is_number = pa.types.is_integer(found) or pa.types.is_floating(found)
    if is_number or pa.types.is_null(found):
        return pa.float64()
    return found if pa.types.is_boolean(found) else pa.string()


def _bad_values(
    text: _Text, table: pa.Table, types: dict[str, Any], faults: Faults
) -> bool:
    """Note the values of number columns that are none, and of truths."""
    found = False
    for name, column in zip(text.names, table.columns, strict=True):
        if pa.types.is_string(types[name]):
            continue
        is_truth = pa.types.is_boolean(types[name])
        fits, noun = (
            (_is_truth, "truth values") if is_truth else (is_number, "numbers")
        )
        values = column.to_pylist()
        bad = [row for row, value in enumerate(values) if not fits(value)]
        if bad:
            found = True
            faults.add(
                f"{text.path.name}: column {name!r}: {len(bad)} values are no "
                f"{noun}",
                "correct these, or leave the column out (--columns=drop=...)"
                + (NAMES_ADVICE if bad[0] == 0 and not text.has_header else ""),
                bad,
                _shown(text, values),
            )
    if found:
        faults.check()
    return found


def _shown(text: _Text, values: Sequence[str]) -> Callable[[int], str]:
    return lambda row: f"{text.place(row)}: {values[row]!r}"


def is_number(value: str) -> bool:
    """Whether a text is a number, or a gap in a column of such."""
    word = value.strip(_BLANKS)
    try:
        return word in _NULLS or pa.scalar(word).cast(pa.float64()).is_valid
    except pa.ArrowInvalid:
        return False


def _is_truth(value: str) -> bool:
    return value.strip(_BLANKS) in _TRUTHS


def is_integer(word: str) -> bool:
    """Whether a text is an integer."""
    return bool(_INTEGER.fullmatch(word.strip()))


def as_ids(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """A column of ids as int64 or as texts; None if it can be neither.

    They stay texts where one is not a plain integer of 64 bits: "007", "+7"
    and " 7" are other ids than "7".
    """
    column = decoded(column)
    if pa.types.is_integer(column.type):
        return integer_ids(column)
    if not holds_texts(column):
        return None
    column = column.cast(pa.string())
    return column if _is_odd(column) else _as_int64(column)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a column that may be a dictionary's keys or views."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    is_view = str(column.type) == "string_view"  # Unknown to older pyarrow.
    return column.cast(pa.string()) if is_view else column


def holds_texts(column: pa.ChunkedArray) -> bool:
    """Whether the values are texts, of either length type of Arrow."""
    kind = column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number_type(kind: Any) -> bool:
    """Whether a type of Arrow is one of numbers, or of truths."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def as_array(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Numbers, not-a-number where missing; or texts, empty where missing."""
    column = decoded(column)
    if holds_texts(column):
        return np.asarray(column.fill_null("").to_numpy(), dtype="U")
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy())


def integer_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers as int64, or as texts if one exceeds that."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # Of 64 bits without sign.
        return column.cast(pa.string())


def _is_odd(column: pa.ChunkedArray) -> bool:
    """Whether a text could be read as an integer that prints otherwise."""
    chunks = (
        pc.any(
            pc.or_(
                pc.and_(
                    pc.starts_with(each, "0"),
                    pc.greater(pc.binary_length(each), 1),
                ),
                pc.or_(pc.starts_with(each, "-0"), pc.starts_with(each, "+")),
            )
        ).as_py()
        for each in column.chunks
    )
    return any(chunks)


def _as_int64(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def of_one_type(columns: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """The columns as they are if all are of one type, else as texts."""
    if len({each.type for each in columns}) == 1:
        return list(columns)
    return [each.cast(pa.string()) for each in columns]
