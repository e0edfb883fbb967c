#include "support/fabric_pair.h"

#include <string>
#include <utility>

namespace kvrail {

FabricPair::FabricPair(const FabricConfig& config, TransferEngineOptions local,
                       TransferEngineOptions other, const FabricConnection::RailUse& rails)
    : local_(std::move(local)) {
  if (config.two_processes()) {
    other_ = std::make_unique<RemoteNode>(std::move(other));
  } else {
    other_ = std::make_unique<LocalNode>(std::move(other));
  }
  connection_ = std::make_unique<FabricConnection>(local_, *other_, rails);
}

testing::AssertionResult FabricPair::no_errors() const {
  for (const auto& side : {connection_->initiator(), connection_->acceptor()}) {
    for (const Status& error : side.errors->entries()) {
      return testing::AssertionFailure()
             << "reported: " << to_string(error.code()) << ": " << error.text();
    }
    for (const RailFailure& failure : side.rail_failures->entries()) {
      return testing::AssertionFailure() << "a rail failed: " << failure.status.text();
    }
  }
  return testing::AssertionSuccess();
}

bool survives_lost_peers(const FabricConfig& config) {
  if (config.provider != "tcp;ofi_rxm") return true;
  return TransferEngine(engine_options(config)).describe().find("libfabric 1.") ==
         std::string::npos;
}

TransferEngineOptions with_rails(TransferEngineOptions options, std::uint16_t rails,
                                 std::size_t groups) {
  options.device_groups.resize(groups, options.device_groups[0]);
  for (DeviceGroupOptions& group : options.device_groups) group.rails_per_nic = rails;
  return options;
}

}  // namespace kvrail
