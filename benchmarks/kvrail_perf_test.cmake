# That kvrail-perf runs all its tests over a provider and says what it has to. No times are checked.
#
#   cmake -D PERF=<kvrail-perf> -D PROVIDER=<provider> -P kvrail_perf_test.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/report_checks.cmake")

execute_process(
  COMMAND "${PERF}" pair --provider ${PROVIDER} --tests write,immediate,message --page-bytes 4K,64K
          --pages 16 --list-pages 4 --rounds 5 --round-ms 1 --messages 20 --baseline --json -
          --plot kvrail_perf_${PROVIDER}.svg
  OUTPUT_VARIABLE report COMMAND_ERROR_IS_FATAL ANY)

foreach(side IN ITEMS source target)
  foreach(member IN ITEMS host cpu kernel libfabric)
    expect(STRING environment ${side} ${member})
  endforeach()
endforeach()
expect(STRING environment provider)
expect(OBJECT settings)

# Two sizes by three contenders, small writes by two, messages by two.
string(JSON cases LENGTH "${report}" cases)
string(JSON ratios LENGTH "${report}" ratios)
if(NOT cases EQUAL 10 OR NOT ratios EQUAL 6)
  message(FATAL_ERROR "${cases} cases and ${ratios} ratios, not 10 and 6")
endif()
foreach(case RANGE 9)
  foreach(member IN ITEMS test layout contender)
    expect(STRING cases ${case} ${member})
  endforeach()
  foreach(member IN ITEMS min median max)
    expect(NUMBER cases ${case} gb_per_s ${member})
    expect(NUMBER cases ${case} operations_per_s ${member})
  endforeach()
  expect(NUMBER cases ${case} source_cpu_s_per_gb)
  expect(NUMBER cases ${case} target_cpu_s_per_gb)
  string(JSON rounds LENGTH "${report}" cases ${case} rounds)
  if(NOT rounds EQUAL 5)
    message(FATAL_ERROR "case ${case} has ${rounds} rounds, not 5")
  endif()
endforeach()
expect(NUMBER cases 0 latency_us p99)
expect(NUMBER ratios 0 speed median)

expect_drawn(polyline 3 kvrail_perf_${PROVIDER}.svg)

# Whole requests and layer signals, with a head split and more chunks than one.
execute_process(
  COMMAND "${PERF}" pair --provider ${PROVIDER} --tests kv,counter --model SmolLM2-135M --tokens 96
          --chunk-tokens 40 --page-tokens 16 --tp-decode 3 --rounds 5 --messages 16 --baseline
          --json -
  OUTPUT_VARIABLE report COMMAND_ERROR_IS_FATAL ANY)

string(JSON cases LENGTH "${report}" cases)
if(NOT cases EQUAL 4)
  message(FATAL_ERROR "${cases} cases of a request, not 4")
endif()
foreach(case RANGE 3)
  # Each contender moves the same bytes: 96 tokens of 30 layers, K and V, 3 heads of 128 bytes.
  string(JSON bytes GET "${report}" cases ${case} rounds 0 bytes)
  if(NOT bytes EQUAL 2211840)
    message(FATAL_ERROR "case ${case} moves ${bytes} bytes, not 2211840")
  endif()
endforeach()
expect(NUMBER cases 0 latency_us p99)
string(JSON of GET "${report}" ratios 0 of)
string(JSON to GET "${report}" ratios 0 to)
if(NOT "${of} to ${to}" STREQUAL "messenger to kvrail")
  message(FATAL_ERROR "the first ratio is ${of} to ${to}")
endif()
foreach(until IN ITEMS seen first_post completion arrival)
  expect(NUMBER signals_us ${until} p50)
  expect(NUMBER signals_us ${until} p99)
endforeach()
# 5 rounds of 2 requests with 8 layers.
string(JSON samples GET "${report}" signals_us seen samples)
if(NOT samples EQUAL 80)
  message(FATAL_ERROR "${samples} signals, not 80")
endif()
