#include <cstdlib>

#include <gtest/gtest.h>

#include "support/fabric_agent.h"
#include "support/scripted_fabric.h"

int main(int argc, char** argv) {
  if (kvrail::is_fabric_agent(argc, argv)) return kvrail::run_fabric_agent();
  kvrail::offer_scripted_provider();
  ::setenv(kvrail::scripted::kCudaVariable, KVRAIL_FAKE_CUDA_DRIVER, 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
