#include <gtest/gtest.h>

#include "support/fabric_agent.h"
#include "support/fabric_config.h"
#include "support/scripted_fabric.h"

// KVRAIL_TEST_PROVIDERS names the providers to test, such as "tcp,shm".
int main(int argc, char** argv) {
  if (kvrail::is_fabric_agent(argc, argv)) return kvrail::run_fabric_agent();
  if (kvrail::is_under_test("scripted")) kvrail::offer_scripted_provider();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
