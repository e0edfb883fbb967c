#include "support/scripted_provider/cuda_memory.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <type_traits>

#include "support/scripted_provider/control_block.h"

namespace kvrail::scripted {

std::unique_ptr<const CudaMemory> CudaMemory::of_environment() {
  const char* path = std::getenv(kCudaVariable);
  if (path == nullptr || *path == '\0') return nullptr;
  return std::unique_ptr<const CudaMemory>(new CudaMemory(path));
}

void CudaMemory::Closer::operator()(void* library) const { ::dlclose(library); }

CudaMemory::CudaMemory(const char* path) : library_(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
  if (!library_) throw std::invalid_argument("the fake CUDA driver cannot be loaded");
  const auto find = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(::dlsym(library_.get(), name));
    if (call == nullptr) throw std::invalid_argument("this is not the fake CUDA driver");
  };
  find(write_, "kvrail_fake_cuda_write");
  find(read_, "kvrail_fake_cuda_read");
}

}  // namespace kvrail::scripted
