#!/usr/bin/env bash
# Plants all parts of one fault into copies of the files that they are for.
#
#   plant_all.sh <root of the tree> <list of faults> <fault> <folder of the copies>
set -euo pipefail

root="$1" list="$2" fault="$3" copies="$4"
plant="$root/tests/layout/mutations/plant.sh"

sed -n "s/^== \($fault\.[0-9]*\) \([^ :]*\).*/\1 \2/p" "$list" | while read -r part file; do
  # The first part of a file takes the tree's, later ones what is planted already.
  if [[ "$part" == *.1 || ! " ${seen:-} " == *" $file "* ]]; then
    mkdir -p "$(dirname "$copies/$file")"
    cp "$root/$file" "$copies/$file"
    seen="${seen:-} $file"
  fi
  bash "$plant" "$copies" "$list" "$part" "$copies/$file"
done
