#include "support/fabric_config.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace kvrail {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<FabricConfig> configs(std::initializer_list<Placement> placements) {
  std::vector<FabricConfig> all;
  for (const std::string& provider : providers_under_test()) {
    for (const Placement placement : placements) all.push_back({provider, placement});
  }
  return all;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const FabricConfig& config) {
  return out << config_name(config);
}

std::string config_name(const FabricConfig& config) {
  std::string name = config.provider + (config.two_processes() ? "_two_processes" : "_one_process");
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

std::vector<std::string> providers_under_test() {
  const std::string listed = environment("KVRAIL_TEST_PROVIDERS");
  if (listed.empty()) return {"tcp", "tcp;ofi_rxm", "shm", "scripted"};
  std::vector<std::string> providers(1);
  for (const char c : listed) {
    if (c == ',' || c == ' ') {
      providers.emplace_back();
    } else {
      providers.back() += c;
    }
  }
  std::erase(providers, "");
  return providers;
}

bool is_under_test(const std::string& provider) {
  const auto providers = providers_under_test();
  return std::find(providers.begin(), providers.end(), provider) != providers.end();
}

std::vector<FabricConfig> all_configs() {
  return configs({Placement::kOneProcess, Placement::kTwoProcesses});
}
std::vector<FabricConfig> two_process_configs() { return configs({Placement::kTwoProcesses}); }
std::vector<FabricConfig> one_process_configs() { return configs({Placement::kOneProcess}); }

TransferEngineOptions engine_options(const FabricConfig& config) {
  TransferEngineOptions options;
  options.provider = config.provider;
  if (const auto address = environment("KVRAIL_TEST_BIND_ADDRESS"); !address.empty()) {
    options.bind_address = address;
  }
  if (const auto nic = environment("KVRAIL_TEST_NIC"); !nic.empty()) {
    options.device_groups[0].nics = {nic};
  }
  return options;
}

}  // namespace kvrail
