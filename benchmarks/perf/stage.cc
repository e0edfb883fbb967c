#include "perf/stage.h"

#include <algorithm>
#include <utility>

#include "kvrail/error.h"
#include "memory/cuda_device.h"
#include "perf/kv_transport.h"
#include "perf/kvrail_transport.h"
#include "perf/raw_transport.h"
#include "perf/test_table.h"

namespace kvrail::perf {

Stage::Stage(const Settings& settings, const LocalSettings& local,
             std::shared_ptr<const CudaDevice> gpu, Channel& channel, Role role)
    : settings_(settings), gpu_(std::move(gpu)), channel_(channel), role_(role) {
  add("kvrail", std::make_unique<KvrailTransport>(settings, local));
  if (settings.baseline) {
    add("best", std::make_unique<RawTransport>(RawTransport::Kind::kBest, settings, local));
    add("naive", std::make_unique<RawTransport>(RawTransport::Kind::kNaive, settings, local));
  }
  if (needs_messenger(settings)) add("messenger", std::make_unique<KvTransport>(settings, local));
}

Stage::~Stage() = default;

void Stage::add(std::string name, std::unique_ptr<Transport> transport) {
  transport->connect(channel_, role_);
  contenders_.push_back({std::move(name), std::move(transport)});
}

void Stage::close() {
  for (const Contender& contender : contenders_) contender.transport->close();
  memory_.reset();
  kv_.reset();
}

void Stage::open(const Scene& scene) {
  close();
  switch (scene.kind) {
    case Scene::Pages::kPlain:
      plan_ = make_page_plan(scene.layout, scene.page_bytes, scene.pages, scene.list_pages);
      break;
    case Scene::Pages::kRequest:
      kv_ = make_kv_plan(settings_);
      break;
    case Scene::Pages::kSignals:
      kv_ = make_signal_plan();
      break;
  }
  memory_ = std::make_unique<PatternMemory>(plan().memory_bytes(), gpu_);
  if (role_ == Role::kSource) memory_->fill();
  for (const std::string& name : scene.contenders) {
    contender(name).open(plan(), request(), *memory_, channel_);
  }
}

Transport& Stage::contender(const std::string& name) const {
  const auto found =
      std::find_if(contenders_.begin(), contenders_.end(),
                   [&](const Contender& contender) { return contender.name == name; });
  if (found != contenders_.end()) return *found->transport;
  throw Error(ErrorCode::kMalformed, "there is no '" + name + "' to run");
}

}  // namespace kvrail::perf
