# That kvrail-perf runs all its tests over a provider and says what it has to. No times are checked.
#
#   cmake -D PERF=<kvrail-perf> -D PROVIDER=<provider> -P kvrail_perf_test.cmake
cmake_minimum_required(VERSION 3.25)

execute_process(
  COMMAND "${PERF}" pair --provider ${PROVIDER} --tests write,immediate,message --page-bytes 4K,64K
          --pages 16 --list-pages 4 --rounds 5 --round-ms 1 --messages 20 --baseline --json -
  OUTPUT_VARIABLE report COMMAND_ERROR_IS_FATAL ANY)

# Fails where a member is missing or of another type.
function(expect type)
  string(JSON found TYPE "${report}" ${ARGN})
  if(NOT found STREQUAL "${type}")
    message(FATAL_ERROR "${ARGN} is ${found}, not ${type}")
  endif()
endfunction()

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
expect(NUMBER ratios 0 kvrail_speed median)
