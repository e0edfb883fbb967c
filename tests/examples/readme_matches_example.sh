#!/usr/bin/env bash
# The first integration that README.md shows is examples/first_integration.cc to the letter.
#
#   readme_matches_example.sh <root of the tree>
set -euo pipefail
cd "$1"

sed -n '/^```cpp$/,/^```$/{//!p}' README.md | diff -u examples/first_integration.cc -
