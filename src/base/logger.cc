#include "base/logger.h"

#include <string_view>
#include <utility>

#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

namespace kvrail {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

LogLevel from_spdlog(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return LogLevel::kError;
  if (level == spdlog::level::warn) return LogLevel::kWarning;
  if (level == spdlog::level::info) return LogLevel::kInfo;
  return LogLevel::kDebug;
}

// The host's sink says of itself that it takes calls from several threads.
class HostSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit HostSink(LogSink sink) : sink_(std::move(sink)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string line = fmt::format(
        "{}: {}", std::string_view(message.logger_name.data(), message.logger_name.size()),
        std::string_view(message.payload.data(), message.payload.size()));
    sink_(from_spdlog(message.level), line);
  }
  void flush_() override {}

 private:
  LogSink sink_;
};

}  // namespace

Logger::Logger(std::string component, LogSink sink) {
  if (!sink) return;
  logger_ = std::make_shared<spdlog::logger>(std::move(component),
                                             std::make_shared<HostSink>(std::move(sink)));
  logger_->set_level(spdlog::level::debug);
}

Logger::~Logger() = default;

void Logger::write(LogLevel level, fmt::string_view format, fmt::format_args args) const {
  if (!logger_) return;
  logger_->log(to_spdlog(level), spdlog::string_view_t(fmt::vformat(format, args)));
}

}  // namespace kvrail
