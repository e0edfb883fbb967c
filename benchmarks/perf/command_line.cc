#include "perf/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kvrail/error.h"
#include "perf/device.h"
#include "perf/kv_plan.h"
#include "perf/target_process.h"
#include "perf/test_table.h"

namespace kvrail::perf {
namespace {

// Texts that become values once the arguments are complete.
struct Texts {
  std::vector<std::string> page_bytes;
  std::string layout;
  std::string max_write;
  std::string max_memory;
  std::string device = device_text(std::nullopt);
  std::string target_device;
};

void add_settings(CLI::App& app, Settings& settings, Texts& texts) {
  texts.page_bytes.clear();
  for (const std::uint64_t bytes : settings.page_bytes) {
    texts.page_bytes.push_back(bytes_text(bytes));
  }
  texts.layout = to_string(settings.layout);
  texts.max_memory = bytes_text(settings.max_memory_bytes);
  app.add_option("--tests", settings.tests, "write, immediate, message, kv, counter")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--provider", settings.provider, "tcp, shm, verbs, efa, auto, ...")
      ->capture_default_str();
  app.add_option("--nic", settings.nic, "libfabric's name of the device; else its first");
  app.add_option("--page-bytes", texts.page_bytes, "sizes of pages, such as 4K,64K,1M")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--pages", settings.pages, "pages, each at a place of its own")
      ->capture_default_str();
  app.add_option("--list-pages", settings.list_pages, "pages of one submission")
      ->capture_default_str();
  app.add_option("--layout", texts.layout, "neighbouring, apart or shuffled")
      ->capture_default_str();
  app.add_option("--depth", settings.depth, "submissions outstanding")->capture_default_str();
  app.add_option("--rails", settings.rails, "endpoints on the NIC, kvrail only")
      ->capture_default_str();
  app.add_option("--queue-depth", settings.queue_depth,
                 "writes outstanding per link, kvrail only; 0: the provider's")
      ->capture_default_str();
  app.add_option("--receive-credit", settings.receive_credit,
                 "immediates that a link holds, kvrail only")
      ->capture_default_str();
  app.add_option("--max-write", texts.max_write,
                 "bytes up to which neighbours are merged, kvrail only; else the library's");
  app.add_option("--spin-us", settings.spin_us, "before a worker dozes, kvrail only")
      ->capture_default_str();
  app.add_option("--model", settings.model, "of the test kv: qwen3-coder, ... or a config.json")
      ->capture_default_str();
  app.add_option("--tokens", settings.tokens, "of the request of the test kv")
      ->capture_default_str();
  app.add_option("--chunk-tokens", settings.chunk_tokens, "of one forward pass; 0: all")
      ->capture_default_str();
  app.add_option("--page-tokens", settings.page_tokens, "of one page")->capture_default_str();
  app.add_option("--tp-prefill", settings.tp_prefill, "tensor-parallel ranks of the source")
      ->capture_default_str();
  app.add_option("--tp-decode", settings.tp_decode, "tensor-parallel ranks of the target")
      ->capture_default_str();
  app.add_option("--watcher", settings.watcher, "who watches the source's layers: thread, worker")
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds, "rounds of each contender")->capture_default_str();
  app.add_option("--round-ms", settings.round_ms, "least time of a round")->capture_default_str();
  app.add_option("--messages", settings.messages, "messages of a round")->capture_default_str();
  app.add_flag("--baseline", settings.baseline, "also plain libfabric loops, and the ratios");
  app.add_option("--max-memory", texts.max_memory, "bytes of pages; fewer pages are taken above it")
      ->capture_default_str();
  app.add_option(kDeviceOption, texts.device,
                 "where pages lie: host, or cuda:N for the memory of GPU N, that of all ranks of "
                 "--tp-prefill and --tp-decode")
      ->capture_default_str();
  app.add_option(kTargetDeviceOption, texts.target_device,
                 "where the target's do; else as --device");
}

void add_outputs(CLI::App& app, CommandLine& line) {
  app.add_option("--json", line.json_path, "file for the results as JSON; - prints only them");
  app.add_option("--plot", line.plot_path, "SVG file for the curves of the test write");
  app.add_option("--csv", line.csv_path, "file for the results as CSV; - prints only them");
}

void add_cuda_driver(CLI::App& app, LocalSettings& local) {
  app.add_option("--cuda-driver", local.cuda_driver, "of the GPUs; loaded if one is named")
      ->capture_default_str();
}

void add_local(CLI::App& app, LocalSettings& local) {
  app.add_option("--bind", local.bind_address, "address of this host for socket providers")
      ->capture_default_str();
  app.add_option("--core", local.core, "core to run on; -1: any")->capture_default_str();
  add_cuda_driver(app, local);
}

void add_source_cores(CLI::App& app, LocalSettings& local) {
  app.add_option("--pass-core", local.pass_core,
                 "core that layers are signalled from, in place of a GPU; else the source's");
  app.add_option("--watcher-core", local.watcher_core,
                 "core for the watcher's thread alone, which spins there; else the source's");
}

// The target may be on a host that does not have the file.
void read_model(Settings& settings) {
  if (!std::filesystem::is_regular_file(settings.model)) return;
  std::ifstream file(settings.model);
  settings.model_config.assign(std::istreambuf_iterator<char>(file), {});
  settings.model = std::filesystem::path(settings.model).filename().string();
}

void finish(Settings& settings, LocalSettings& local, const Texts& texts) {
  settings.page_bytes.clear();
  for (const std::string& text : texts.page_bytes) {
    settings.page_bytes.push_back(parse_bytes(text));
  }
  settings.layout = parse_layout(texts.layout);
  if (!texts.max_write.empty()) settings.max_write_bytes = parse_bytes(texts.max_write);
  settings.max_memory_bytes = parse_bytes(texts.max_memory);
  local.device = parse_device(texts.device, kDeviceOption);
  settings.target_device = texts.target_device.empty()
                               ? local.device
                               : parse_device(texts.target_device, kTargetDeviceOption);
  read_model(settings);
  settings.check();
  // Wrong names end here, before anything is started.
  choose_tests(settings);
  if (needs_messenger(settings)) make_kv_plan(settings);
}

void check_plot(const CommandLine& line) {
  const auto& tests = line.settings.tests;
  if (!line.plot_path.empty() && std::find(tests.begin(), tests.end(), "write") == tests.end()) {
    throw Error(ErrorCode::kInvalidArgument, "--plot draws the test write: add it to --tests");
  }
}

}  // namespace

CommandLine parse_command_line(int count, char** arguments) {
  CommandLine line;
  Texts texts;
  CLI::App app("Measures how fast kvrail moves pages.", "kvrail-perf");
  app.require_subcommand(1);

  CLI::App& pair = *app.add_subcommand("pair", "both sides on this host, in two processes");
  add_settings(pair, line.settings, texts);
  add_outputs(pair, line);
  pair.add_option("--bind", line.local.bind_address, "address for socket providers")
      ->capture_default_str();
  pair.add_option("--cores", line.cores, "cores of the source and the target; else the first two")
      ->delimiter(',')
      ->expected(2);
  add_source_cores(pair, line.local);
  add_cuda_driver(pair, line.local);

  CLI::App& serve = *app.add_subcommand("serve", "the target, for sources on other hosts");
  serve.add_option("--listen", line.address, "HOST:PORT; whoever reaches it is served")->required();
  serve.add_flag("--once", line.once, "ends after one run");
  add_local(serve, line.local);

  CLI::App& run = *app.add_subcommand("run", "the source, against kvrail-perf serve");
  run.add_option("--connect", line.address, "HOST:PORT of the target")->required();
  add_settings(run, line.settings, texts);
  add_outputs(run, line);
  add_local(run, line.local);
  add_source_cores(run, line.local);

  CLI::App& target = *app.add_subcommand(kTargetCommand, "")->group("");
  add_local(target, line.local);

  try {
    app.parse(count, arguments);
    if (target.parsed()) {
      line.mode = CommandLine::Mode::kTarget;
    } else if (serve.parsed()) {
      line.mode = CommandLine::Mode::kServe;
    } else {
      finish(line.settings, line.local, texts);
      check_plot(line);
      line.mode = run.parsed() ? CommandLine::Mode::kRun : CommandLine::Mode::kPair;
    }
  } catch (const CLI::ParseError& error) {
    line.exit_code = app.exit(error);
  } catch (const Error& error) {
    line.exit_code = app.exit(CLI::ValidationError(error.what()));
  }
  return line;
}

}  // namespace kvrail::perf
