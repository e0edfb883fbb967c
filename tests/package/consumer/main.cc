// An engine built against the installed kvrail: sees the headers, links the library, runs it.

#include <kvrail/kvrail.h>

#include <cstdio>
#include <string>

int main() {
  kvrail::TransferEngineOptions options;
  options.provider = "no-such-provider";
  try {
    kvrail::TransferEngine engine(options);
    std::puts("a provider that does not exist was accepted");
    return 1;
  } catch (const kvrail::Error& error) {
    if (std::string(error.what()).find(options.provider) == std::string::npos) {
      std::printf("the error does not name the provider: %s\n", error.what());
      return 1;
    }
  }
  options.provider = "tcp";
  kvrail::TransferEngine engine(options);
  std::puts(engine.describe().c_str());
  return 0;
}
