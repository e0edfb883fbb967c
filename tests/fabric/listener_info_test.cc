#include "fabric/listener_info.h"

#include <malloc.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <rdma/fi_errno.h>

#include "fabric/fabric_resource.h"
#include "fabric/link.h"
#include "fabric/provider.h"
#include "fabric/rail.h"

namespace kvrail {
namespace {

constexpr std::size_t kLinks = 64;
constexpr std::size_t kLeftBytes = 16;

void open_and_close(Rail& rail) {
  Link::Settings settings;
  settings.queue_depth = 1;
  settings.receive_credit = 1;
  settings.channels_out = 1;
  for (std::size_t i = 0; i < kLinks; ++i) Link(rail, settings);
}

TEST(ListenerInfo, AClosedLinkLeavesNextToNothing) {
  if (mallinfo2().uordblks == 0) GTEST_SKIP() << "the allocator does not count";
  TransferEngineOptions options;
  options.provider = "tcp";
  options.bind_address = "127.0.0.1";
  const std::vector<Provider> providers = find_providers(options);
  Rail rail(providers.at(0), providers.at(0).nics.at(0), {DeviceGroupId(0), RailIndex(0)});
  open_and_close(rail);  // what is kept for the next ones
  const std::size_t before = mallinfo2().uordblks;
  open_and_close(rail);
  EXPECT_LE(mallinfo2().uordblks, before + kLinks * kLeftBytes);
}

// A fabric whose listeners open, or do not.
template <int kCode>
int answer(fid_fabric*, fi_info*, fid_pep**, void*) {
  return kCode;
}

InfoPtr info_of(const char* provider) {
  InfoPtr info(fi_allocinfo());
  info->fabric_attr->prov_name = ::strdup(provider);
  return info;
}

fi_ops_fabric calls(int (*passive_ep)(fid_fabric*, fi_info*, fid_pep**, void*)) {
  fi_ops_fabric ops{};
  ops.size = sizeof ops;
  ops.passive_ep = passive_ep;
  return ops;
}

TEST(ListenerInfo, OnlyAListenerThatOpensEmptiesTheInfo) {
  if (fi_version() != FI_VERSION(1, 17)) GTEST_SKIP() << "other releases lose nothing";
  for (const bool opens : {true, false}) {
    fi_ops_fabric ops = calls(opens ? answer<0> : answer<-FI_ENOMEM>);
    fid_fabric fabric{};
    fabric.ops = &ops;
    InfoPtr info = info_of("net");
    const ListenerInfoFreer freer(&fabric, *info);
    EXPECT_EQ(fabric.ops->passive_ep(&fabric, info.get(), nullptr, nullptr),
              opens ? 0 : -FI_ENOMEM);
    EXPECT_EQ(info->fabric_attr == nullptr, opens);
    EXPECT_EQ(info->tx_attr == nullptr, opens);
    // Freed by us, or by its owner.
    if (opens) static_cast<void>(info.release());
  }
}

// A crash, or what AddressSanitizer says, tells when it is freed twice.
TEST(ListenerInfo, AProviderMayFreeItsInfo) {
  fi_ops_fabric ops = calls(answer<0>);
  fid_fabric fabric{};
  fabric.ops = &ops;
  const ListenerInfoFreer freer(&fabric, *info_of("net"));
  for (int i = 0; i < 3; ++i) {
    const InfoPtr info = info_of("net");
    EXPECT_EQ(fabric.ops->passive_ep(&fabric, info.get(), nullptr, nullptr), 0);
  }
}

TEST(ListenerInfo, TheFabricGetsItsCallsBack) {
  fi_ops_fabric ops = calls(answer<0>);
  fid_fabric fabric{};
  fabric.ops = &ops;
  { const ListenerInfoFreer freer(&fabric, *info_of("net")); }
  EXPECT_EQ(fabric.ops, &ops);
}

TEST(ListenerInfo, OtherProvidersAreLeftAlone) {
  fi_ops_fabric ops = calls(answer<0>);
  fid_fabric fabric{};
  fabric.ops = &ops;
  const ListenerInfoFreer freer(&fabric, *info_of("tcp;ofi_rxm"));
  EXPECT_EQ(fabric.ops, &ops);
}

}  // namespace
}  // namespace kvrail
