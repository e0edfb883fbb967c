#!/usr/bin/env bash
# The checks themselves: each finds the fault that it is there for and passes the file without it.
#
#   checks_find_faults.sh <folder of the checks> <work folder>
set -euo pipefail

checks="$1" tree="$2/tree"
faults=0

# check, file, line that is fine, line that is not
expect() {
  rm -rf "$tree"
  mkdir -p "$tree"/{src,include,examples} "$tree/$(dirname "$2")"
  printf '%s\n' "$3" >"$tree/$2"
  bash "$checks/$1.sh" "$tree" >/dev/null 2>&1 || { echo "$1 refuses in $2: $3"; faults=1; }
  printf '%s\n' "$4" >"$tree/$2"
  ! bash "$checks/$1.sh" "$tree" >/dev/null 2>&1 || { echo "$1 passes in $2: $4"; faults=1; }
}

expect includes src/fabric/a.cc '#include "base/a.h"' '#include "layout/a.h"'
expect includes src/base/a.h '#include <fmt/format.h>' '#include "fabric/a.h"'
expect includes src/messenger/a.cc '#include "wire/a.h"' '#include "tools/a.h"'
expect includes src/wire/a.cc '#include <asio.hpp>' '#include <rdma/fabric.h>'
expect includes src/layout/a.cc '#include "layout/b.h"' '#include "b.h"'
expect includes src/topology/a.cc '#include <hwloc.h>' '#  include <hwloc/cuda.h> // no'$'\n''#include <cuda.h>'
expect includes src/messenger/a.cc '#include <vector>' '#include "wire/messages_generated.h"'
expect includes src/messenger/a.cc '#include "fabric/a.h"' '#include <asio/ip/tcp.hpp>'
expect includes src/memory/a.cc '#include <cuda.h>' '#include <spdlog/spdlog.h>'
expect includes src/tools/a.cc '#include <CLI/CLI.hpp>' '#include <hwloc.h>'
expect includes include/kvrail/a.h '#include "kvrail/b.h"' '#include "base/b.h"'
expect includes include/kvrail/a.h '#include <vector>' '#include <fmt/format.h>'
expect includes examples/a.cc '#include "kvrail/kvrail.h"' '#include "fabric/link.h"'
expect environment src/base/a.cc 'int budget_environment;' 'auto* p = std::getenv("A");'
expect file_length src/base/a.cc "$(yes '//' | head -n 400)" "$(yes '//' | head -n 401)"
bash "$checks/format.sh" "$tree" >/dev/null 2>&1 && status=0 || status=$?
if ((status != 77)); then
  expect format src/base/a.cc 'int a = 1;' 'int  a=1 ;'
fi
exit $faults
