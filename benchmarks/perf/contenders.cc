#include "perf/contenders.h"

#include <utility>

#include "kvrail/error.h"
#include "perf/kvrail_transport.h"
#include "perf/raw_transport.h"

namespace kvrail::perf {

std::vector<Contender> connect_contenders(const Settings& settings, const LocalSettings& local,
                                          Channel& channel, Role role) {
  std::vector<Contender> contenders;
  contenders.push_back({"kvrail", std::make_unique<KvrailTransport>(settings, local)});
  if (settings.baseline) {
    for (const auto& [name, kind] : {std::pair{"best", RawTransport::Kind::kBest},
                                     std::pair{"naive", RawTransport::Kind::kNaive}}) {
      contenders.push_back({name, std::make_unique<RawTransport>(kind, settings, local)});
    }
  }
  for (const Contender& contender : contenders) contender.transport->connect(channel, role);
  return contenders;
}

Transport& find_contender(const std::vector<Contender>& contenders, const std::string& name) {
  for (const Contender& contender : contenders) {
    if (contender.name == name) return *contender.transport;
  }
  throw Error(ErrorCode::kMalformed, "there is no '" + name + "' to run");
}

}  // namespace kvrail::perf
