#pragma once

#include <functional>
#include <string_view>

namespace kvrail {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Where the library's log lines go. Called from any of the library's threads, possibly from several
// at once; must not block for long and must not call back into the library. An empty sink drops
// everything: the library never prints by itself.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

}  // namespace kvrail
