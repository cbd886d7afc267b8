#!/bin/bash
# Measures a machine with one GPU in three calls of about eight minutes each, 25 minutes together:
#
#   scripts/capture/run_all_on_gpu.sh traces    OUT   overheads, then traces of every workload
#   scripts/capture/run_all_on_gpu.sh kernels   OUT   bench_kernels.py
#   scripts/capture/run_all_on_gpu.sh embedding OUT   bench_embedding.py
#
# A call ends by itself with what it has. The last two go on where they stopped when given the
# folder of the earlier call:  run_all_on_gpu.sh kernels OUT EARLIER_OUT
# OUT gets at most eight files, each under 15 MB: *.csv.xz, traces.<n>.tar, log.txt. What to commit
# where is in README.md, "From a GPU machine into the repository".
# Clocks and power limits are left as they are; the manifests and tables state them.
set -u -o pipefail
stage=${1:?usage: run_all_on_gpu.sh traces|kernels|embedding OUT [EARLIER_OUT]}
out=${2:?usage: run_all_on_gpu.sh traces|kernels|embedding OUT [EARLIER_OUT]}
earlier=${3:-}
python=${PYTHON:-python3}
limit=${LIMIT_SECONDS:-460}    # of a whole call
device=${DEVICE:-cuda}         # cpu: a rehearsal of the sequence, with SIZE=--tiny
size=${SIZE:-}                 # --quick or --tiny
cpu_only=$([ "$device" = cpu ] && echo --precision fp32)
tiny=$([ "$size" = --tiny ] && echo --tiny)
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export PYTHONUNBUFFERED=1
start=$SECONDS
left() { echo $((limit - (SECONDS - start))); }
note() { echo "[$((SECONDS - start)) s] $*" | tee -a "$out/log.txt"; }
# Runs a script under what is left of the call (and 20 s to spare); its failure does not end the call.
run() {
  local name=$1; shift
  local seconds=$(($(left) - 20))
  if [ "$seconds" -lt 15 ]; then note "left out for want of time: $name $*"; return 1; fi
  timeout --signal=INT --kill-after=20 "$seconds" "$python" "$here/$name" "$@" 2>&1 | tee -a "$out/log.txt"
  local code=$?
  [ $code -eq 0 ] || note "failed with code $code: $name $*"
  return $code
}
# Python's lzma: a bare machine may lack xz.
compress() { "$python" -c 'import lzma,sys; open(sys.argv[2],"wb").write(lzma.compress(open(sys.argv[1],"rb").read(),preset=9))' "$1" "$2" || note "cannot compress $1"; }
expand() { "$python" -c 'import lzma,sys; open(sys.argv[2],"wb").write(lzma.open(sys.argv[1]).read())' "$1" "$2" || note "cannot read $1"; }
bench() {  # script, table, seconds of measuring
  if [ -n "$earlier" ] && [ -f "$earlier/$2.csv.xz" ]; then
    expand "$earlier/$2.csv.xz" "$work/$2.csv"
  fi
  run "$1" --device "$device" $size --output "$work/$2.csv" --budget-seconds "$3"
  [ -f "$work/$2.csv" ] && compress "$work/$2.csv" "$out/$2.csv.xz"
}
capture() {  # folder name, then options
  local name=$1; shift
  run capture_trace.py --device "$device" $tiny --output "$work/captured/$name" \
    --steps 5 --gzip-execution-trace "$@" $cpu_only || rm -rf "$work/captured/$name"
}

note "$stage on $(nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader 2>/dev/null || echo "$device")"
case $stage in
traces)
  # First of all, whether everything runs here: what fails in a tiny run shows in the log at once.
  run bench_kernels.py --device "$device" --tiny --limit 60 --repeats 3 --output "$work/smoke_kernels.csv"
  run bench_embedding.py --device "$device" --tiny --repeats 3 --output "$work/smoke_embedding.csv"
  [ "$device" = cpu ] || bench bench_overheads.py overheads 60
  mkdir -p "$work/captured"
  # One size of every workload first, then twins that differ by one change, then the others: an early
  # end leaves no workload out.
  one="--execution-trace-steps 1"
  capture dlrm-mixed-b2048 --workload dlrm --tables mixed --batch 2048 --precision tf32
  capture gpt2-small-b8-bf16 --workload gpt2-small --batch 8 --precision bf16 $one
  capture bert-base-b16-fp16 --workload bert-base --batch 16 --precision fp16 $one
  capture resnet50-b64-tf32 --workload resnet50 --batch 64 --precision tf32 $one
  capture gpt2-medium-b4-bf16 --workload gpt2-medium --batch 4 --precision bf16 $one
  for twin in "half --layers 6" "sleep --sleep-ms 3" "read --read-loss"; do
    [ "$device" = cpu ] && [ "${twin%% *}" = sleep ] && continue
    capture "gpt2-small-b8-bf16-${twin%% *}" --workload gpt2-small --batch 8 --precision bf16 $one ${twin#* }
  done
  capture dlrm-mixed-b2048-read --workload dlrm --tables mixed --batch 2048 --precision tf32 --read-loss
  if [ "$size" != --tiny ]; then
    capture gpt2-small-b2-bf16 --workload gpt2-small --batch 2 --precision bf16 $one
    for twin in "half --layers 6" "sleep --sleep-ms 3" "read --read-loss"; do
      capture "gpt2-small-b2-bf16-${twin%% *}" --workload gpt2-small --batch 2 --precision bf16 $one ${twin#* }
    done
    capture dlrm-heavy-b1024 --workload dlrm --tables heavy --batch 1024 --precision tf32
    capture dlrm-small-b512-uniform --workload dlrm --tables small --batch 512 --indices uniform --read-loss
    capture dlrm-wide-b8192 --workload dlrm --tables wide --batch 8192 --precision tf32 --indices zipf-0.8
    capture gpt2-small-b2-fp32 --workload gpt2-small --batch 2 --precision fp32 $one
    capture gpt2-small-b16-bf16 --workload gpt2-small --batch 16 --precision bf16 $one
    capture bert-base-b4-tf32 --workload bert-base --batch 4 --precision tf32 $one
    capture bert-base-b64-bf16 --workload bert-base --batch 64 --precision bf16 $one
    capture resnet50-b16-fp32 --workload resnet50 --batch 16 --precision fp32 $one
    capture resnet50-b256-bf16 --workload resnet50 --batch 256 --precision bf16 --channels-last $one
    capture gpt2-medium-b1-tf32 --workload gpt2-medium --batch 1 --precision tf32 $one
    capture gpt2-medium-b16-bf16 --workload gpt2-medium --batch 16 --precision bf16 $one
    capture dlrm-mixed-b512-device --workload dlrm --tables mixed --batch 512 --input device
    capture gpt2-small-b8-math --workload gpt2-small --batch 8 --precision bf16 --attention math $one
    capture gpt2-small-b8-compiled --workload gpt2-small --batch 8 --precision bf16 --compile $one
  fi
  "$python" "$here/pack_traces.py" "$work/captured" "$out" 2>&1 | tee -a "$out/log.txt"
  ;;
kernels) bench bench_kernels.py kernels $((limit - 60)) ;;
embedding) bench bench_embedding.py embedding $((limit - 60)) ;;
*) echo "run_all_on_gpu.sh: error: stage $stage is none of traces, kernels, embedding" >&2; exit 2 ;;
esac
note "done"
ls -l "$out"
