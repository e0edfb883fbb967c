# Modules: the folders of src/. Each is an object library; together they are the library kvrail.
#
#   kvrail_add_module(<name> SOURCES <files> [DEPENDS <modules>] [LINK <libraries>])
#     Object library kvrail_<name>. DEPENDS are the modules left of its arrow; LINK are third-party
#     libraries, which modules that depend on this one get as well.
#   kvrail_link_modules(<target> <modules>)
#     Links the objects of the modules, and of all that they depend on, into a program.
#   kvrail_add_flatbuffers(<module> SCHEMAS <files>)
#     Compiles x.fbs of the calling folder; its header is included as "<module>/x_generated.h".

include_guard(GLOBAL)

function(kvrail_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;LINK")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kvrail_add_module(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  set(target kvrail_${name})
  add_library(${target} OBJECT ${arg_SOURCES})
  kvrail_compile_options(${target})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(${target} PRIVATE KVRAIL_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} PUBLIC Threads::Threads ${arg_LINK})
  foreach(module IN LISTS arg_DEPENDS)
    # Brings include paths and libraries; the objects of an object library do not travel.
    target_link_libraries(${target} PUBLIC kvrail_${module})
  endforeach()
  set_target_properties(${target} PROPERTIES KVRAIL_DEPENDS "${arg_DEPENDS}" KVRAIL_LINK "${arg_LINK}")
  set_property(GLOBAL APPEND PROPERTY KVRAIL_MODULES ${name})
endfunction()

function(kvrail_link_modules target)
  set(linked)
  set(todo ${ARGN})
  while(todo)
    list(POP_FRONT todo module)
    if(module IN_LIST linked)
      continue()
    endif()
    list(APPEND linked ${module})
    target_link_libraries(${target} PRIVATE kvrail_${module})
    get_target_property(depends kvrail_${module} KVRAIL_DEPENDS)
    list(APPEND todo ${depends})
  endwhile()
endfunction()

function(kvrail_add_flatbuffers module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SCHEMAS")
  set(root "${PROJECT_BINARY_DIR}/generated")
  set(headers)
  foreach(schema IN LISTS arg_SCHEMAS)
    cmake_path(ABSOLUTE_PATH schema BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    cmake_path(GET schema STEM stem)
    set(header "${root}/${module}/${stem}_generated.h")
    add_custom_command(
      OUTPUT "${header}"
      COMMAND "${KVRAIL_FLATC}" --cpp --scoped-enums --cpp-std c++17 -o "${root}/${module}" "${schema}"
      DEPENDS "${schema}" "${KVRAIL_FLATC}"
      COMMENT "Compiling ${module}/${stem}.fbs"
      VERBATIM)
    list(APPEND headers "${header}")
  endforeach()
  target_sources(kvrail_${module} PRIVATE ${headers})
  target_include_directories(kvrail_${module} SYSTEM PUBLIC "${root}")
  target_link_libraries(kvrail_${module} PUBLIC kvrail_flatbuffers)
endfunction()
