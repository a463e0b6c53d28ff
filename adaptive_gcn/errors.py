"""Errors about data that users can mend."""


class DataError(ValueError):
    """Files or settings that no graph can be made of."""


class GraphError(DataError):
    """The input does not describe a graph that can be trained on."""


def one_line(error: BaseException) -> str:
    """Kind and text of an error in one line, as a command ends with it."""
    lines = (line.strip() for line in str(error).splitlines())
    return f"{type(error).__name__}: {' '.join(filter(None, lines))}"
