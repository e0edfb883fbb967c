# What this libfabric offers beyond 1.17, found by compiling, as definitions for the fabric module:
#   KVRAIL_HAVE_FI_MR_DMABUF               fi_mr_regattr takes dmabuf file descriptors
#   KVRAIL_HAVE_FI_OPT_EFA_EMULATED_WRITE  the efa provider tells whether it emulates writes
# Absent features are not defined at all.

include_guard(GLOBAL)
include(CheckCXXSourceCompiles)
include(CMakePushCheckState)

cmake_push_check_state(RESET)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::libfabric)
set(CMAKE_REQUIRED_QUIET ON)
check_cxx_source_compiles([[
#include <rdma/fi_domain.h>
int main() {
  struct fi_mr_dmabuf buffer = {};
  struct fi_mr_attr attributes = {};
  attributes.dmabuf = &buffer;
  return buffer.fd + static_cast<int>(FI_MR_DMABUF);
}
]] KVRAIL_HAVE_FI_MR_DMABUF)
check_cxx_source_compiles([[
#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext.h>
int main() { return static_cast<int>(FI_OPT_EFA_EMULATED_WRITE); }
]] KVRAIL_HAVE_FI_OPT_EFA_EMULATED_WRITE)
cmake_pop_check_state()

set(KVRAIL_LIBFABRIC_FEATURES)
foreach(feature IN ITEMS FI_MR_DMABUF FI_OPT_EFA_EMULATED_WRITE)
  if(KVRAIL_HAVE_${feature})
    list(APPEND KVRAIL_LIBFABRIC_FEATURES KVRAIL_HAVE_${feature})
  endif()
endforeach()
