#!/usr/bin/env bash
# Which file may include what:
#   - a layer of src/ includes its own files and those of the layers left of its arrow;
#   - a third-party library is seen only in the layer that wraps it;
#   - public headers include the standard library and each other;
#   - examples see nothing private.
#
#   includes.sh <root of the tree>
set -euo pipefail
cd "$1"

found="$(find src include examples -type f \( -name '*.h' -o -name '*.cc' \) -exec \
  grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' {} + || true)"

awk '
BEGIN {
  allowed["base"] = " base "
  allowed["topology"] = " base topology "
  allowed["memory"] = " base memory "
  allowed["fabric"] = " base topology memory fabric "
  allowed["layout"] = " base layout "
  allowed["wire"] = " base layout wire "
  allowed["messenger"] = " base topology memory fabric layout wire messenger "
  allowed["tools"] = allowed["messenger"] "tools "
  owner["^rdma/"] = " fabric "
  owner["^infiniband/"] = " fabric "
  owner["^hwloc(/|\\.h$)"] = " topology "
  owner["^(cuda|nvtx)"] = " memory "
  owner["^asio(/|\\.hpp$)"] = " wire "
  owner["^flatbuffers/"] = " wire "
  owner["_generated\\.h$"] = " wire "
  owner["^sodium(/|\\.h$)"] = " wire fabric "
  owner["^spdlog/"] = " base "
  owner["^CLI/"] = " tools "
  owner["^nlohmann/"] = " layout tools "
}
function fault(text) { print place ": " text; faults++ }
{
  split($0, part, ":")
  path = part[1]
  place = part[1] ":" part[2]
  quoted = ($0 ~ /include[[:space:]]*"/)
  name = $0
  sub(/^[^"<]*["<]/, "", name)
  sub(/[">].*$/, "", name)
  split(path, folder, "/")

  if (folder[1] == "include") {
    if (quoted ? name !~ /^kvrail\// : name !~ /^[a-z_0-9]+$/ && name !~ /^std(def|int)\.h$/)
      fault("a public header includes only the standard library and \"kvrail/...\", not " name)
    next
  }
  if (folder[1] == "examples") {
    split(name, root, "/")
    if (quoted && root[1] in allowed) fault("examples include nothing private, not " name)
    next
  }
  layer = folder[2]
  if (!(layer in allowed)) { fault("src/" layer " is no layer"); next }
  if (quoted && name !~ /^kvrail\//) {
    split(name, root, "/")
    if (name !~ /\// || !(root[1] in allowed))
      fault("write \"<layer>/<file>\" for our own files and <...> for others, not " name)
    else if (index(allowed[layer], " " root[1] " ") == 0)
      fault("src/" layer " must not include src/" root[1] " (" name ")")
  }
  for (pattern in owner)
    if (name ~ pattern && index(owner[pattern], " " layer " ") == 0)
      fault(name " is seen only in:" owner[pattern])
}
END { exit faults > 0 }
' <<<"$found"
