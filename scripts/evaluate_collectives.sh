#!/bin/sh
# Prints the errors of the collective models on rows that took no part in their fit.
#   scripts/evaluate_collectives.sh SOURCES      (FORETRACE: the binary; -v: every model)
set -eu
[ $# -ge 1 ] || { echo "usage: $0 SOURCES [-v]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
foretrace=${FORETRACE:-$here/../build/release/foretrace}
tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
"$here/import_all.sh" "$1" "$tables" 2>/dev/null
if [ "${2:-}" = -v ]; then show=cat; else show="grep -E ^(all|mean)"; fi
run() {
  echo "== $1"
  shift
  "$foretrace" calibrate collective "$@" | $show
}
cd "$tables"
run "every third size held out, all sources" *-collectives.csv --hold-out every-third
run "the paper's three regions, every third size, sweeps of 20 sizes and more" \
  vtrain-*-collectives.csv vidur-*-collectives.csv --form three_region --hold-out every-third
run "trained on powers of two only" $(ls *-collectives.csv | grep -Ev 'deepbench|aceso|aicb') \
  --hold-out powers-of-two
run "ranks between measured ones, NVSwitch" vtrain-a100-*-collectives.csv --hold-out ranks
"$foretrace" calibrate collective vtrain-*-collectives.csv -o prior >/dev/null
run "another lab as it is: Galvatron's all-reduce on vTrain's A100 calibration" \
  --calibration prior/a100-sxm4-nvswitch/collectives.yaml --test galvatron-*-collectives.csv
run "Galvatron's with three points" galvatron-*-collectives.csv \
  --adapt prior/a100-sxm4-nvswitch/collectives.yaml --hold-out three-points
run "another lab as it is: Aceso's all-reduce on vTrain's V100 calibration" \
  --calibration prior/v100-sxm2-nvlink/collectives.yaml --test aceso-v100-sxm2-*-collectives.csv
run "Aceso's with three points" aceso-v100-sxm2-*-collectives.csv \
  --adapt prior/v100-sxm2-nvlink/collectives.yaml --hold-out three-points
