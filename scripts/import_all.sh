#!/bin/sh
# Imports every public benchmark source below SOURCES into neutral CSV files.
#   scripts/import_all.sh SOURCES OUT
set -eu
[ $# -eq 2 ] || { echo "usage: $0 SOURCES OUT" >&2; exit 2; }
here=$(dirname "$0")
for pair in vtrain:vtrain vidur:vidur nccl_tests:nccl-tests-cluster-h100 galvatron:galvatron \
            aicb:aicb aceso:aceso deepbench:deepbench llmcompass:llmcompass neusight:neusight recsys:embedding; do
  folder="$1/${pair#*:}"
  if [ -d "$folder" ]; then
    python3 "$here/import_${pair%%:*}.py" "$folder" -o "$2"
  else
    echo "$folder: absent, left out" >&2
  fi
done
