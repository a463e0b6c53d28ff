"""Forms of the self-dependent function g, and g on the host for all nodes.

`layers.SelfDependentFunction` has the same forms and documents them; a test
holds the two together. The sampler needs g of every candidate, which
is cheaper to take from one product over all nodes than node by node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FORMS = ("linear", "relu1", "exp", "softplus")
LINEAR_FLOOR = 1e-3  # Keeps |W_g x| away from 0, where q would vanish.
LIMIT = 20.0  # W_g x is held in [-20, 20] before exp and softplus.


def self_importance(
    features: Any, w_g: npt.NDArray[np.floating[Any]], form: str
) -> npt.NDArray[np.float64]:
    """g(x(u)) of all nodes, Eq. (8).

    Args:
        features: [n_nodes, n_features], dense or CSR.
        w_g: [n_features], W_g.
        form: One of `FORMS`.

    Returns:
        [n_nodes] float64, > 0.

    Raises:
        ValueError: If `form` is unknown.
    """
    response = np.asarray(features @ w_g, np.float64)
    if form == "linear":
        return np.abs(response) + LINEAR_FLOOR
    if form == "relu1":
        return np.maximum(response, 0.0) + 1.0
    if form == "exp":
        return np.exp(np.clip(response, -LIMIT, LIMIT))
    if form == "softplus":
        return np.logaddexp(0.0, np.clip(response, -LIMIT, LIMIT) + 1.0)
    raise ValueError(f"`form` must be one of {FORMS}. Received: form={form!r}")
