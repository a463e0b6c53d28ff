"""The paper's experiments: grid of runs -> records -> tables, plots, a page.

    python -m adaptive_gcn.experiments table1 --seeds=20

grid         which cells there are
fingerprint  which code and settings a record belongs to
records      one JSON file a run
runner       runs what has no record
paper        the figures of the paper
summaries    records -> means, deviations, differences
tables       Markdown and LaTeX
plots        PNG and PDF
report       the page
"""
