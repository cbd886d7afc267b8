#!/bin/sh
# Makes calibration/*/collectives.yaml from the public sources below SOURCES.
#   scripts/make_calibration.sh SOURCES DATE [OUT]      (FORETRACE: the binary)
# AICB's rows are left out: times in a training run include waiting for other ranks.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 SOURCES DATE [OUT]" >&2; exit 2; }
here=$(dirname "$0")
date=$2
out=${3:-$here/../calibration}
foretrace=${FORETRACE:-$here/../build/release/foretrace}
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
