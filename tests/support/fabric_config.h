#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "kvrail/fabric_options.h"

namespace kvrail {

// Where the second node of a test lives.
enum class Placement { kOneProcess, kTwoProcesses };

// What one run of the conformance suite is about.
struct FabricConfig {
  std::string provider;
  Placement placement = Placement::kOneProcess;

  bool two_processes() const { return placement == Placement::kTwoProcesses; }
  // Whether a peer that is stopped or dead holds nobody else up. Endpoints of shm are guarded by
  // spinning locks: a process that stops while it holds one stops whoever writes to it, until it
  // goes on or the engine is told of its end.
  bool isolates_stopped_peers() const { return provider != "shm"; }
  // Whether each of its endpoints holds about 70 MiB of buffers and takes long to open.
  bool has_large_endpoints() const { return provider.find(';') != std::string::npos; }
  // Whether its links are TCP connections of the kernel.
  bool over_tcp() const { return provider.starts_with("tcp") || provider.starts_with("net"); }
};

std::ostream& operator<<(std::ostream& out, const FabricConfig& config);
// "tcp_ofi_rxm_two_processes".
std::string config_name(const FabricConfig& config);

// The providers under test: those of KVRAIL_TEST_PROVIDERS (separated by commas or blanks), else
// the ones that work on any Linux host.
std::vector<std::string> providers_under_test();
bool is_under_test(const std::string& provider);
std::vector<FabricConfig> all_configs();
std::vector<FabricConfig> two_process_configs();
std::vector<FabricConfig> one_process_configs();

// Options for the provider, with the address of KVRAIL_TEST_BIND_ADDRESS and the NIC of
// KVRAIL_TEST_NIC where they are set.
TransferEngineOptions engine_options(const FabricConfig& config);

}  // namespace kvrail
