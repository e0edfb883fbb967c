# That scaling runs, moves the same bytes at each count and says what it has to. No times are checked.
#
#   cmake -D SCALING=<scaling> -D OF=<rails, peers or requests> -P scaling_test.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/report_checks.cmake")

if(OF STREQUAL "requests")
  set(counts 1 20)
  set(options --requests 40)
  set(bytes 2621440)
elseif(OF STREQUAL "peers")
  set(counts 1 16)
  set(options --pages 64 --round-bytes 8M)
  set(bytes 8388608)
else()
  set(counts 1 4)
  set(options --pages 64 --round-bytes 8M)
  set(bytes 8388608)
endif()
list(JOIN counts "," list)
execute_process(
  COMMAND "${SCALING}" ${OF} --counts ${list} --rounds 2 ${options} --json -
          --plot scaling_${OF}.svg
  OUTPUT_VARIABLE report COMMAND_ERROR_IS_FATAL ANY)

string(JSON points LENGTH "${report}" points)
if(NOT points EQUAL 2)
  message(FATAL_ERROR "${points} points, not 2")
endif()
foreach(point IN ITEMS 0 1)
  string(JSON count GET "${report}" points ${point} count)
  list(GET counts ${point} expected)
  if(NOT count EQUAL expected)
    message(FATAL_ERROR "point ${point} is of ${count}, not ${expected}")
  endif()
  foreach(round IN ITEMS 0 1)
    string(JSON moved GET "${report}" points ${point} measured rounds ${round} bytes)
    if(NOT moved EQUAL bytes)
      message(FATAL_ERROR "${count} ${OF} moved ${moved} bytes, not ${bytes}")
    endif()
  endforeach()
  expect(NUMBER points ${point} speed median)
endforeach()
if(OF STREQUAL "requests")
  expect(NUMBER points 1 measured latency_us p99)
endif()

expect_drawn(circle 2 scaling_${OF}.svg)
