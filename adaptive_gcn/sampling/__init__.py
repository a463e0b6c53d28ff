"""Samplers: draw the nodes of each layer, top-down, with importance weights.

    samplers.py   LayerSample, the four samplers, and the loop over layers.
    kernels.py    Their loops, compiled by numba: pure functions of arrays.
    importance.py The self-dependent function g of all nodes, on the host.
    rows.py       Rows of a CSR matrix as coordinates.

No TensorFlow here.
"""
