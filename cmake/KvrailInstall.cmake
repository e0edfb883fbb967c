# Install rules, the CMake package and the pkg-config file. tests/package builds against both.
# A static kvrail asks its users for the libraries behind it, a shared one for nothing.

include(CMakePackageConfigHelpers)

set(kvrail_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/kvrail")

install(TARGETS kvrail EXPORT kvrail
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/kvrail" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(EXPORT kvrail NAMESPACE kvrail:: FILE kvrailTargets.cmake DESTINATION "${kvrail_cmake_dir}")

get_target_property(kvrail_type kvrail TYPE)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/kvrailConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/kvrailConfig.cmake"
                              INSTALL_DESTINATION "${kvrail_cmake_dir}"
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kvrailConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kvrailConfig.cmake"
              "${PROJECT_BINARY_DIR}/kvrailConfigVersion.cmake"
        DESTINATION "${kvrail_cmake_dir}")

# The libraries are named in Libs.private one by one: their own pkg-config files ask, for static
# linking, for libraries behind them of which Debian has no development files installed.
set(kvrail_pc_libs_private)
if(kvrail_type STREQUAL "STATIC_LIBRARY")
  foreach(library IN ITEMS libfabric libsodium)
    foreach(folder IN LISTS ${library}_LIBRARY_DIRS)
      string(APPEND kvrail_pc_libs_private " -L${folder}")
    endforeach()
    list(JOIN ${library}_LIBRARIES " -l" names)
    string(APPEND kvrail_pc_libs_private " -l${names}")
  endforeach()
  string(APPEND kvrail_pc_libs_private " -lspdlog -lfmt -lstdc++ -lpthread")
  foreach(library IN LISTS CMAKE_DL_LIBS)
    string(APPEND kvrail_pc_libs_private " -l${library}")
  endforeach()
endif()
string(STRIP "${kvrail_pc_libs_private}" kvrail_pc_libs_private)

# Relative to the file's own place, so that the prefix can be chosen at install time or moved.
file(RELATIVE_PATH kvrail_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" kvrail_pc_prefix "${kvrail_pc_prefix}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/kvrail.pc.in" "${PROJECT_BINARY_DIR}/kvrail.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/kvrail.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
