"""Graphs too large for one machine, as Apache Beam pipelines.

`prepare` makes a store of lists of edges, `predict` runs the full architecture
layer by layer. Both run on any of Beam's runners; results are those of the
same work in memory. Needs the extra `beam`.
"""
