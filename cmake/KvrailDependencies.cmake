# Finds what the library needs to build. docs/dependencies.md says what each is for; cmake/deps.sh
# installs the packages on Debian.
#
# For LINK of kvrail_add_module: fmt::fmt spdlog::spdlog PkgConfig::libfabric
# PkgConfig::libsodium, and the header-only kvrail_asio, kvrail_flatbuffers
# and kvrail_json.

include_guard(GLOBAL)

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
pkg_check_modules(libfabric REQUIRED IMPORTED_TARGET libfabric>=1.17)
pkg_check_modules(libsodium REQUIRED IMPORTED_TARGET libsodium)

# Header only: nothing to link, so an installed kvrail does not need them.
find_path(KVRAIL_ASIO_INCLUDE_DIR asio.hpp REQUIRED)
add_library(kvrail_asio INTERFACE)
target_include_directories(kvrail_asio SYSTEM INTERFACE "${KVRAIL_ASIO_INCLUDE_DIR}")
target_compile_definitions(kvrail_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)

find_path(KVRAIL_FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
find_program(KVRAIL_FLATC flatc REQUIRED)
add_library(kvrail_flatbuffers INTERFACE)
target_include_directories(kvrail_flatbuffers SYSTEM INTERFACE "${KVRAIL_FLATBUFFERS_INCLUDE_DIR}")

find_path(KVRAIL_JSON_INCLUDE_DIR nlohmann/json.hpp REQUIRED)
add_library(kvrail_json INTERFACE)
target_include_directories(kvrail_json SYSTEM INTERFACE "${KVRAIL_JSON_INCLUDE_DIR}")

mark_as_advanced(KVRAIL_ASIO_INCLUDE_DIR KVRAIL_FLATBUFFERS_INCLUDE_DIR KVRAIL_FLATC
                 KVRAIL_JSON_INCLUDE_DIR)
