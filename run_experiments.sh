#!/usr/bin/env bash
# Runs cells of the results table, one JSON record a run, and prints the table.
# A cell is the flag files it takes, joined by "+": cora+row1+full is
# --flagfile=flags/cora.cfg --flagfile=flags/row1.cfg --flagfile=flags/full.cfg
set -euo pipefail
cd "$(dirname "$0")"

CELLS=(cora citeseer pubmed cora+paper_sizes
  cora+row1+full cora+row1+iid cora+row1+no_vr cora+row1+adapt)
SEEDS=${SEEDS:-20}
FIRST_SEED=${FIRST_SEED:-0}
JOBS=${JOBS:-$(nproc)}
RESULTS_DIR=${RESULTS_DIR:-results}
PYTHON=${PYTHON:-python}

usage() {
  cat <<END
Usage: ./run_experiments.sh [cell ...]

Without arguments: ${CELLS[*]}
Runs that have their record in RESULTS_DIR are not run again; a run that fails
leaves its reason there, with the ending .failed, and counts as no result.

Environment (now): SEEDS=$SEEDS FIRST_SEED=$FIRST_SEED JOBS=$JOBS
RESULTS_DIR=$RESULTS_DIR PYTHON=$PYTHON, and ADAPTIVE_GCN_DATA_DIR, the folder
of the raw files. Each run has one core to itself.
END
}

run_one() { # cell seed
  local cell=$1 seed=$2 record="$RESULTS_DIR/$1/seed$2.json" folder flags=()
  local cores
  [[ -e $record ]] && return
  mkdir -p "$RESULTS_DIR/$cell"
  read -ra cores < <("$PYTHON" -c \
    'import os; print(*sorted(os.sched_getaffinity(0)))')
  folder=$(mktemp -d)
  IFS=+ read -ra files <<<"$cell"
  for file in "${files[@]}"; do flags+=("--flagfile=flags/$file.cfg"); done
  if ! taskset -c "${cores[SLOT % ${#cores[@]}]}" "$PYTHON" -m adaptive_gcn.main \
    "${flags[@]}" "--seed=$seed" "--output_dir=$folder" \
    >"$folder/log" 2>&1; then
    echo "$cell seed $seed failed:" >&2
    tail -n 5 "$folder/log" >&2
    tail -n 1 "$folder/log" >"${record%.json}.failed"
    rm -r "$folder"
    return 1
  fi
  rm -f "${record%.json}.failed"
  cp "$folder/result.json" "$record.tmp"
  mv "$record.tmp" "$record"
  echo "$cell seed $seed: $(tail -n 1 "$folder/log")"
  rm -r "$folder"
}

case ${1-} in
-h | --help)
  usage
  exit
  ;;
--run-one)
  run_one "$2" "$3"
  exit
  ;;
esac

[[ $# -gt 0 ]] && CELLS=("$@")
export RESULTS_DIR PYTHON
failed=0
for cell in "${CELLS[@]}"; do
  seq "$FIRST_SEED" "$((FIRST_SEED + SEEDS - 1))" |
    xargs -P "$JOBS" --process-slot-var=SLOT -I '{}' \
      "./$(basename "$0")" --run-one "$cell" '{}' || failed=1
done
"$PYTHON" -m adaptive_gcn.experiments "--results_dir=$RESULTS_DIR"
exit "$failed"
