#pragma once

#include <memory>
#include <string>

#include <fmt/format.h>

#include "kvrail/log.h"

namespace spdlog {
class logger;
}

namespace kvrail {

// Writes the library's lines to the host's sink; has no output of its own and is in no registry.
// Threads: any. Never on the data path's per-page code.
class Logger {
 public:
  // `component` starts each line ("fabric", "messenger").
  Logger(std::string component, LogSink sink);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kDebug, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kInfo, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kWarning, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::kError, format, fmt::make_format_args(args...));
  }

 private:
  void write(LogLevel level, fmt::string_view format, fmt::format_args args) const;

  std::shared_ptr<spdlog::logger> logger_;  // null: no sink
};

}  // namespace kvrail
