# What the tests of measuring programs ask of a report, which is JSON in `report`, and of a plot.

# Fails where a member is missing or of another type.
function(expect type)
  string(JSON found TYPE "${report}" ${ARGN})
  if(NOT found STREQUAL "${type}")
    message(FATAL_ERROR "${ARGN} is ${found}, not ${type}")
  endif()
endfunction()

# Fails where a member has another value.
function(expect_value value)
  string(JSON found GET "${report}" ${ARGN})
  if(NOT found STREQUAL value)
    message(FATAL_ERROR "${ARGN} is '${found}', not '${value}'")
  endif()
endfunction()

# Fails unless so many elements of a kind are in an SVG file.
function(expect_drawn element count file)
  file(READ "${file}" plot)
  string(REGEX MATCHALL "<${element} " drawn "${plot}")
  list(LENGTH drawn drawn)
  if(NOT drawn EQUAL count)
    message(FATAL_ERROR "${file} has ${drawn} ${element} elements, not ${count}")
  endif()
endfunction()
