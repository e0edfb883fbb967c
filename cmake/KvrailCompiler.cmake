# How every target of this tree is compiled: language level, warnings, sanitizers, ccache.
# Nothing here reaches the users of the library.
#
#   kvrail_compile_options(<target>)   for the library and what is measured
#   kvrail_program_options(<target>)   for tests and examples: the same, but quicker to compile

include_guard(GLOBAL)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(KVRAIL_CCACHE ccache)
  mark_as_advanced(KVRAIL_CCACHE)
  if(KVRAIL_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${KVRAIL_CCACHE}")
  endif()
endif()

add_library(kvrail_options INTERFACE)
target_compile_features(kvrail_options INTERFACE cxx_std_20)
target_compile_options(kvrail_options INTERFACE -Wall -Wextra $<$<BOOL:${KVRAIL_WERROR}>:-Werror>)

if(KVRAIL_SANITIZE STREQUAL "address")
  # The check of virtual tables makes a pipe to see whether memory can be read, and so takes an
  # object for invalid whenever the process is out of descriptors, which tests bring about.
  set(kvrail_sanitizer_flags -fsanitize=address,undefined -fno-sanitize=vptr
    -fno-sanitize-recover=all)
elseif(KVRAIL_SANITIZE STREQUAL "thread")
  set(kvrail_sanitizer_flags -fsanitize=thread)
elseif(KVRAIL_SANITIZE)
  message(FATAL_ERROR "KVRAIL_SANITIZE=${KVRAIL_SANITIZE}: choose address, thread or nothing")
endif()

if(KVRAIL_SANITIZE)
  # -O1 -g1 after the flags of the build type: the tests of these builds run in a third of the time
  # that -O0 takes, and line numbers are all that a report needs. GCC reports uninitialised values
  # in instrumented code that are none.
  target_compile_options(kvrail_options INTERFACE ${kvrail_sanitizer_flags} -O1 -g1
                         -fno-omit-frame-pointer
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(kvrail_options INTERFACE ${kvrail_sanitizer_flags})
endif()

function(kvrail_compile_options target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:kvrail_options>)
  # The static library goes into engines that are shared objects themselves.
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
endfunction()

# Linked after kvrail_options, so that its flags come last. Half of what the sanitizers add to compile
# times are checks of every pointer that is followed; AddressSanitizer sees the null ones anyway.
add_library(kvrail_lean_options INTERFACE)
if(KVRAIL_SANITIZE STREQUAL "address")
  target_compile_options(kvrail_lean_options INTERFACE -fno-sanitize=null,vptr,alignment)
else()
  target_compile_options(kvrail_lean_options INTERFACE $<$<CONFIG:Release>:-O1>)
endif()

function(kvrail_program_options target)
  kvrail_compile_options(${target})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:kvrail_lean_options>)
endfunction()
