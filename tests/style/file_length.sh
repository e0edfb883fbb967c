#!/usr/bin/env bash
# No file of ours is longer than 400 lines: split it by noun before that.
#
#   file_length.sh <root of the tree>
set -euo pipefail
cd "$1"

find . \( -path ./build -o -path ./.git \) -prune -o -type f \( -name '*.h' -o -name '*.cc' -o \
  -name '*.cuh' -o -name '*.fbs' -o -name '*.cmake' -o -name '*.sh' -o -name '*.md' -o \
  -name CMakeLists.txt \) -exec awk '
    FNR == 401 { print FILENAME ": longer than 400 lines"; faults++ }
    END { exit faults > 0 }' {} +
