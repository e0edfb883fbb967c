# That kvrail-perf runs all its tests with pages in the memory of GPUs and says whose: over the tests'
# provider and fake driver, which end a process that touches such memory and keep from the GPU what
# was not flushed. The program itself compares every byte after each round.
#
#   cmake -D PERF=<kvrail-perf> -D DRIVER=<the fake> -D PROVIDER_DIR=<of the scripted provider>
#         -P kvrail_perf_device_test.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/report_checks.cmake")

set(ENV{FI_PROVIDER_PATH} "${PROVIDER_DIR}")
set(ENV{KVRAIL_SCRIPTED_CUDA} "${DRIVER}")

# run(<arguments>): leaves what was printed in `report`.
function(run)
  execute_process(
    COMMAND "${PERF}" pair --provider scripted --cuda-driver "${DRIVER}" --page-bytes 4K,2M --pages 4
            --list-pages 2 --rounds 5 --round-ms 1 --messages 16 --baseline ${ARGN}
    OUTPUT_VARIABLE report COMMAND_ERROR_IS_FATAL ANY)
  set(report "${report}" PARENT_SCOPE)
endfunction()

# Small pages, and those that the checks read in parts; chunks and a head split in the request.
run(--device cuda:0 --tests write,immediate,message,kv,counter --model SmolLM2-135M --tokens 96
    --chunk-tokens 40 --page-tokens 16 --tp-decode 3 --json -)
foreach(side IN ITEMS source target)
  expect_value("cuda:0" environment ${side} device)
  expect_value("fake GPU 0" environment ${side} gpu)
endforeach()
string(JSON cases LENGTH "${report}" cases)
# Two sizes by three, small writes and messages by two each, the request by four.
if(NOT cases EQUAL 14)
  message(FATAL_ERROR "${cases} cases, not 14")
endif()
foreach(case RANGE 13)
  string(JSON rounds LENGTH "${report}" cases ${case} rounds)
  if(NOT rounds EQUAL 5)
    message(FATAL_ERROR "case ${case} has ${rounds} rounds, not 5")
  endif()
endforeach()
expect(NUMBER signals_us arrival p50)

# From the host's memory to a GPU's and back, by one after the other.
run(--device host --target-device cuda:1 --tests write,message,kv --tokens 64 --json -)
expect_value("host" environment source device)
expect_value("cuda:1" environment target device)
expect_value("fake GPU 1" environment target gpu)
expect_value("cuda:1" settings target_device)

run(--device cuda:1 --target-device host --tests write,message --csv -)
string(FIND "${report}" "scripted,cuda:1,fake GPU 1,host,,4096" found)
if(found EQUAL -1)
  message(FATAL_ERROR "no row has the devices:\n${report}")
endif()

run(--device cuda:0 --target-device cuda:1 --tests write)
foreach(words IN ITEMS "pages in cuda:0 (fake GPU 0)" "pages in cuda:1 (fake GPU 1)")
  string(FIND "${report}" "${words}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the table does not say: ${words}\n${report}")
  endif()
endforeach()
