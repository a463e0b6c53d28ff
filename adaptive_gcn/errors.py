"""Errors about data that users can mend."""


class DataError(ValueError):
    """Files or settings that no graph can be made of."""


class GraphError(DataError):
    """The input does not describe a graph that can be trained on."""
