#!/bin/sh
# Makes calibration/*/collectives.yaml, kernels.yaml and embedding.yaml from the public sources below
# SOURCES.
#   scripts/make_calibration.sh SOURCES DATE [OUT]      (FORETRACE: the binary)
# AICB's rows are left out: times in a training run include waiting for other ranks.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 SOURCES DATE [OUT]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "$1" && pwd)
date=$2
mkdir -p "${3:-$here/../calibration}"
out=$(cd "${3:-$here/../calibration}" && pwd)
foretrace=${FORETRACE:-$(cd "$here/.." && pwd)/build/release/foretrace}
tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
"$here/import_all.sh" "$1" "$tables"
# Benchmarks of the communication library first, then those through a framework or a host clock.
set --
for source in nccl-tests vtrain vidur galvatron deepbench aceso; do
  for table in "$tables/$source"-*-collectives.csv; do
    [ -f "$table" ] && set -- "$@" "$table"
  done
done
"$foretrace" calibrate collective "$@" --hold-out every-third --date "$date" -o "$out"

# Kernels. Boards of one chip share what was measured on another board of it: the last of each chain
# knows all operators.
kernel() { "$foretrace" calibrate kernel "$@" --date "$date" -o "$out"; }
cd "$tables"
whole="PyTorch calls of NeuSight, with launch and measurement fitted apart"
for gpu in a100-pcie-40gb v100-pcie p100-pcie; do
  kernel neusight-train-$gpu-kernels.csv --test neusight-test-$gpu-kernels.csv --note "$whole"
done
kernel neusight-train-a100-pcie-80gb-kernels.csv --hold-out random-fifth \
  --adapt "$out/a100-pcie-40gb/kernels.yaml" \
  --note "convolutions measured on this board, the rest on the 40 GB board"
kernel vidur-a100-sxm4-nvswitch-kernels.csv --hold-out random-fifth \
  --adapt "$out/a100-pcie-80gb/kernels.yaml" \
  --note "fp16 GEMMs and additions measured on this board, the rest on PCIe boards"
kernel vidur-h100-sxm5-nvswitch-kernels.csv --hold-out random-fifth \
  --note "fp16 GEMMs and additions alone; other classes are answered from these, flagged"
kernel deepbench-v100-sxm2-nvlink-kernels.csv aceso-v100-sxm2-nvlink-kernels.csv --hold-out random-fifth \
  --adapt "$out/v100-pcie/kernels.yaml" \
  --note "GEMMs and fp16 convolutions measured on such boards, the rest on the PCIe board"

# Lookups: the calls of two public traces, and the one shape that a public table times.
few="the lookups of a few training steps, not a benchmark: informed says which parameters they determine"
field() { sed -n "s/^$2: *//p" "$1/SOURCE.txt" | head -1; }
lookups() { # PLATFORM RULE FOLDER TRACE...
  platform=$1 rule=$2 folder=$3
  shift 3
  for trace in "$@"; do set -- "$@" --trace "$folder/$trace"; shift; done
  "$foretrace" calibrate embedding "$@" --hold-out "$rule" --as "$platform" --note "$few" \
    --provenance "source=$(field "$folder" repo)" --provenance "commit=$(field "$folder" commit)" \
    --provenance "licence=$(field "$folder" licence)" --date "$date" -o "$out"
}
[ ! -d "$sources/param-et_replay" ] ||
  lookups v100-sxm2-nvlink odd-ranks "$sources/param-et_replay" dlrm_kineto.tar.gz dlrm_pytorch_et.tar.gz
[ ! -d "$sources/hta-traces" ] || lookups a100-sxm4-nvswitch odd-steps "$sources/hta-traces" trace_diff/control
cd "$tables"
one="one shape, a skewed batch, with two optimizers: informed says which parameters it determines"
[ ! -f recsys-h100-sxm5-nvswitch-embedding.csv ] ||
  "$foretrace" calibrate embedding recsys-h100-sxm5-nvswitch-embedding.csv --hold-out every-third --note "$one" \
    --date "$date" -o "$out"
