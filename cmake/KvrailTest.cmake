#   kvrail_add_test(<executable> SOURCES <files> MODULES <modules> [LINK <libraries>]
#                   [TIMEOUT <seconds>] [LABELS <labels>] [SINGLE])
#     A GoogleTest program of some modules of src/ alone, and its tests for ctest: one entry per test,
#     or with SINGLE one for the whole program (for many short tests behind a costly start).
#     The root for includes is tests/, beside src/ and include/. TIMEOUT holds per entry.
#   kvrail_add_test_program(<executable> SOURCES <files> MODULES <modules> [LINK <libraries>])
#     A program that tests start: the other process. A test finds it beside its own executable
#     when both are defined in one folder.

include_guard(GLOBAL)

find_package(GTest CONFIG REQUIRED)
include(GoogleTest)

if(KVRAIL_SANITIZE)
  add_library(kvrail_sanitizer_defaults OBJECT "${PROJECT_SOURCE_DIR}/tests/support/sanitizer_defaults.cc")
  kvrail_compile_options(kvrail_sanitizer_defaults)
endif()

function(kvrail_add_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;MODULES;LINK")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  add_executable(${name} ${arg_SOURCES})
  kvrail_program_options(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  kvrail_link_modules(${name} ${arg_MODULES})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  if(KVRAIL_SANITIZE)
    target_link_libraries(${name} PRIVATE kvrail_sanitizer_defaults)
  endif()
endfunction()

function(kvrail_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SINGLE" "TIMEOUT" "SOURCES;MODULES;LINK;LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(KVRAIL_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 3")
  endif()
  kvrail_add_test_program(${name} SOURCES ${arg_SOURCES} MODULES ${arg_MODULES}
                          LINK ${arg_LINK} GTest::gmock GTest::gtest_main ${arg_UNPARSED_ARGUMENTS})
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  if(arg_SINGLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES ${properties})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
  endif()
endfunction()
