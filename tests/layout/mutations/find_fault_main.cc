#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "layout/sharding_case.h"
#include "layout/transfer_proof.h"

// Looks for a fault of the planner in the first N cases of the proof. Exits with 0 if there is one,
// and says how many cases that took; with 1 if there is none.
int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 1000;
  for (int i = 1; i <= cases; ++i) {
    kvrail::Random random(static_cast<std::uint64_t>(i));
    const std::string fault = kvrail::find_fault(kvrail::random_case(random));
    if (fault.empty()) continue;
    std::cout << "found in case " << i << ": " << fault << '\n';
    return 0;
  }
  std::cout << "not found in " << cases << " cases\n";
  return 1;
}
