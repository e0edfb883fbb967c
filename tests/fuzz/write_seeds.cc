// Writes the seeds of one fuzzer: one file each, named by number.
//
//   fuzz_..._seeds <folder>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s <folder>\n", argv[0]);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  std::size_t number = 0;
  for (const auto& seed : kvrail::fuzz_seeds()) {
    std::ofstream file(folder / ("seed_" + std::to_string(number++)), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write to %s\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
