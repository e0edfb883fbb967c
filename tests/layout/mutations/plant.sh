#!/usr/bin/env bash
# Plants one fault of a list into a copy of the file that it is for.
#
#   plant.sh <root of the tree> <list of faults> <fault> <copy>
#   plant.sh <root of the tree> <list of faults>      only says which do not apply
#
# Fails if the text that a fault replaces is not in its file exactly once.
set -euo pipefail

root="$1" list="$2"
failed=0

plant() {  # fault, file, old text, new text, copy or nothing
  local content rest
  if ! content="$(cat "$root/$2"; echo .)"; then
    failed=1
    return
  fi
  content="${content%.}"
  rest="${content#*"$3"}"
  if [[ -z "$3" || "$content" != *"$3"* ]]; then
    echo "fault $1 no longer applies: $2 does not hold what it replaces: $3" >&2
    failed=1
  elif [[ "$rest" == *"$3"* ]]; then
    echo "fault $1 no longer applies: $2 holds more than once what it replaces: $3" >&2
    failed=1
  elif [[ -n "$5" ]]; then
    mkdir -p "$(dirname "$5")"
    printf '%s%s%s' "${content%%"$3"*}" "$4" "$rest" >"$5"
  fi
}

wanted="${3:-}" copy="${4:-}"
name='' file='' from='' to='' found=0
finish() {
  [[ -n "$name" ]] || return 0
  if [[ -z "$wanted" || "$name" == "$wanted" ]]; then
    found=1
    plant "$name" "$file" "${from%$'\n'}" "${to%$'\n'}" "$copy"
  fi
  name='' from='' to=''
}
while IFS= read -r line; do
  case "$line" in
    '== '*)
      finish
      read -r _ name file _ <<<"$line"
      file="${file%:}"
      ;;
    '- '*) from+="${line#- }"$'\n' ;;
    '+ '*) to+="${line#+ }"$'\n' ;;
  esac
done <"$list"
finish
if ((!found)); then
  echo "$list has no fault '$wanted'" >&2
  failed=1
fi
exit $failed
