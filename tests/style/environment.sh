#!/usr/bin/env bash
# The environment is read in one file, so that one page can list all that it may hold.
#
#   environment.sh <root of the tree>
set -euo pipefail
cd "$1"

if find src include -type f \( -name '*.h' -o -name '*.cc' \) ! -path src/base/environment.cc -exec \
  grep -nHwE '(secure_)?getenv|environ' {} +; then
  echo "only src/base/environment.cc reads environment variables" >&2
  exit 1
fi
