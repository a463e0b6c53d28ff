"""The accuracies that the paper reports: Tables 1 and 2, and its appendix."""

from __future__ import annotations

# (data set, method): mean and standard deviation on the test nodes.
ACCURACY = {
    ("cora", "full"): (0.8664, 0.0011),
    ("cora", "iid"): (0.8506, 0.0048),
    ("cora", "node_wise"): (0.8202, 0.0133),
    ("cora", "no_vr"): (0.8588, 0.0062),
    ("cora", "adapt"): (0.8744, 0.0034),
    ("citeseer", "full"): (0.7934, 0.0026),
    ("citeseer", "iid"): (0.7387, 0.0078),
    ("citeseer", "node_wise"): (0.7734, 0.0081),
    ("citeseer", "no_vr"): (0.7942, 0.0022),
    ("citeseer", "adapt"): (0.7966, 0.0018),
    ("pubmed", "full"): (0.9022, 0.0008),
    ("pubmed", "iid"): (0.8200, 0.0114),
    ("pubmed", "node_wise"): (0.9002, 0.0017),
    ("pubmed", "no_vr"): (0.9060, 0.0024),
    ("pubmed", "adapt"): (0.9060, 0.0016),
    ("reddit", "full"): (0.9568, 0.0069),
    ("reddit", "iid"): (0.8611, 0.0437),
    ("reddit", "node_wise"): (0.9449, 0.0026),
    ("reddit", "no_vr"): (0.9501, 0.0047),
    ("reddit", "adapt"): (0.9627, 0.0032),
    ("cora", "adapt+skip"): (0.8774, 0.0032),
    ("cora", "adapt+two_hop"): (0.8814, 0.0017),
    ("cora", "adapt+all_layers"): (0.8780, 0.0014),
}
