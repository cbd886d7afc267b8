#!/bin/sh
# Prints the errors of the kernel models on rows that took no part in their fit, one line a model.
#   scripts/evaluate_kernels.sh SOURCES [OUT]    (FORETRACE: the binary; OUT: folder for --rows files)
set -eu
[ $# -ge 1 ] || { echo "usage: $0 SOURCES [OUT]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
foretrace=${FORETRACE:-$here/../build/release/foretrace}
tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
rows=${2:-$tables/rows}
mkdir -p "$rows"
"$here/import_all.sh" "$1" "$tables" 2>/dev/null
# run NAME ARGUMENTS: lines "NAME | model | rows | GMAE | MAPE | rows outside the fitted range".
run() {
  name=$1
  shift
  "$foretrace" calibrate kernel "$@" --json --rows "$rows/$(echo "$name" | tr -c 'a-zA-Z0-9\n' _).csv" |
    python3 -c '
import json, sys
for m in json.load(sys.stdin)["models"]:
    print("| %s | %s | %d | %.2f | %.2f | %d |" % (sys.argv[1], m["name"], m["count"],
          m["gmae_percent"], m["mape_percent"], m["extrapolated_count"]))' "$name"
}
# only OP TABLE: the rows of one operator, with the table's provenance.
only() { awk -F, -v op="$1" '/^#/ || $2 == "op" || $2 == op' "$2"; }

cd "$tables"
echo "| Data | Model | Rows | GMAE % | MAPE % | Extrapolated |"
echo "|---|---|---|---|---|---|"
for gpu in a100-pcie-40gb v100-pcie p100-pcie; do
  run "NeuSight $gpu, upstream's test rows" neusight-train-$gpu-kernels.csv \
    --test neusight-test-$gpu-kernels.csv
done
for gpu in a100-pcie-80gb v100-pcie p100-pcie; do
  only conv2d neusight-train-$gpu-kernels.csv > conv-$gpu.csv
  run "NeuSight $gpu, convolutions, a random fifth" conv-$gpu.csv --hold-out random-fifth
done
for gpu in a100-sxm4-nvswitch h100-sxm5-nvswitch; do
  only linear vidur-$gpu-kernels.csv > linear-$gpu.csv
  run "vidur $gpu, fp16 GEMM, unseen N x K" linear-$gpu.csv --hold-out unseen-nk
  run "vidur $gpu, fp16 GEMM, a random fifth" vidur-$gpu-kernels.csv --hold-out random-fifth
done
run "DeepBench v100-sxm2, a random fifth" deepbench-v100-sxm2-nvlink-kernels.csv \
  --hold-out random-fifth
# A calibration of one GPU and 20 points an operator of another.
"$foretrace" calibrate kernel neusight-train-a100-pcie-40gb-kernels.csv -o prior > /dev/null
run "A100 adapted to V100 by 20 points an operator" neusight-test-v100-pcie-kernels.csv \
  --adapt prior/a100-pcie-40gb/kernels.yaml --hold-out twenty
run "A100 adapted to P100 by 20 points an operator" neusight-test-p100-pcie-kernels.csv \
  --adapt prior/a100-pcie-40gb/kernels.yaml --hold-out twenty
# The same with the machine file of the other GPU alone.
for pair in a100-pcie-40gb:v100-pcie v100-pcie:a100-pcie-40gb a100-pcie-40gb:a100-pcie-80gb \
  a100-pcie-40gb:p100-pcie; do
  run "${pair%:*} on the machine file of ${pair#*:} alone" \
    neusight-train-${pair%:*}-kernels.csv --test neusight-test-${pair#*:}-kernels.csv
done
# And on the linear layers of whole models, of GPUs that no kernel table is at hand of.
for gpu in h100-sxm5-nvswitch t4 p4; do
  run "a100-pcie-40gb on the machine file of $gpu alone, linear layers of whole models" \
    neusight-train-a100-pcie-40gb-kernels.csv --test neusight-models-$gpu-kernels.csv
done
