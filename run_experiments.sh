#!/usr/bin/env bash
# The paper's tables and figures, and what goes with them:
#   ./run_experiments.sh all            everything; resumes where it was stopped
#   ./run_experiments.sh table1 --datasets=cora --methods=full,adapt --seeds=5
#   ./run_experiments.sh quick          a generated graph, under three minutes
#   ./run_experiments.sh report         only what is written from the records
#   ./run_experiments.sh --help         all groups and flags
# ADAPTIVE_GCN_DATA_DIR is the folder of the raw files; PYTHON the interpreter.
set -euo pipefail
cd "$(dirname "$0")"
exec "${PYTHON:-python}" -m adaptive_gcn.experiments "$@"
