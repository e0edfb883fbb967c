// Each kind of bad input: exit status 2 and a message that names the setting and the remedy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "examples/example_process.h"

namespace mock_engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

const Arguments kSmall{"--model",    "SmolLM2-135M", "--memory-gib",    "0.05", "--requests", "2",
                       "--provider", "tcp",          "--prompt-tokens", "100"};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string refusal(const Arguments& arguments) {
  ExampleProcess process(with(kSmall, arguments));
  EXPECT_EQ(process.wait(), 2) << process.said();
  return process.said();
}

class TextFile {
 public:
  TextFile(const std::string& name, const std::string& text)
      : path_(std::filesystem::path(testing::TempDir()) / ("kvrail_" + name)) {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }
  void make_private() const {
    using std::filesystem::perms;
    std::filesystem::permissions(path_, perms::owner_read | perms::owner_write);
  }

 private:
  std::filesystem::path path_;
};

TEST(BadInput, UnknownProvider) {
  EXPECT_THAT(refusal({"--provider", "no-such-provider"}),
              AllOf(HasSubstr("no-such-provider"), HasSubstr("set provider to")));
}

TEST(BadInput, ProviderWithoutImmediates) {
  EXPECT_THAT(refusal({"--provider", "udp"}),
              AllOf(HasSubstr("provider 'udp'"), HasSubstr("counted writes"), HasSubstr("tcp")));
}

TEST(BadInput, AddressInUse) {
  ExampleProcess first(with(kSmall, {"--role", "prefill", "--json"}));
  const auto listening = first.wait_for_event("listening");
  ASSERT_TRUE(listening) << first.said();
  const std::string address = listening->at("address");
  EXPECT_THAT(refusal({"--role", "prefill", "--listen", address}),
              AllOf(HasSubstr(address), HasSubstr("another process")));
}

TEST(BadInput, AddressBeyondLoopback) {
  EXPECT_THAT(refusal({"--role", "prefill", "--listen", "0.0.0.0:0"}), HasSubstr("loopback"));
}

TEST(BadInput, KeyFiles) {
  const std::string digits(64, 'a');
  const TextFile readable("readable_key", digits);
  EXPECT_THAT(refusal({"--role", "prefill", "--key-file", readable.path()}),
              AllOf(HasSubstr(readable.path()), HasSubstr("chmod 600")));
  const TextFile phrase("phrase_key", "open sesame");
  phrase.make_private();
  EXPECT_THAT(refusal({"--role", "prefill", "--key-file", phrase.path()}),
              AllOf(HasSubstr(phrase.path()), HasSubstr("openssl rand -hex 32")));
  EXPECT_THAT(refusal({"--role", "prefill", "--key-file", "/no/such/file"}),
              HasSubstr("/no/such/file"));
}

TEST(BadInput, KeysThatDiffer) {
  const TextFile one("one_key", std::string(64, '1'));
  const TextFile two("two_key", std::string(64, '2'));
  one.make_private();
  two.make_private();
  ExampleProcess prefill(with(
      kSmall, {"--role", "prefill", "--json", "--listen", "0.0.0.0:0", "--key-file", one.path()}));
  const auto listening = prefill.wait_for_event("listening");
  ASSERT_TRUE(listening) << prefill.said();
  std::string address = listening->at("address");
  address = "127.0.0.1" + address.substr(address.rfind(':'));
  EXPECT_THAT(refusal({"--role", "decode", "--connect", address, "--key-file", two.path()}),
              HasSubstr("another pre-shared key"));
  EXPECT_THAT(refusal({"--role", "decode", "--connect", address}),
              HasSubstr("has a pre-shared key"));
}

TEST(BadInput, NobodyListens) {
  EXPECT_THAT(refusal({"--role", "decode", "--connect", "127.0.0.1:1"}), HasSubstr("127.0.0.1:1"));
}

TEST(BadInput, LayoutsThatDiffer) {
  ExampleProcess prefill(with(kSmall, {"--role", "prefill", "--json"}));
  const auto listening = prefill.wait_for_event("listening");
  ASSERT_TRUE(listening) << prefill.said();
  EXPECT_THAT(refusal({"--role", "decode", "--model", "DeepSeek-R1", "--connect",
                       listening->at("address").get<std::string>()}),
              AllOf(HasSubstr("DeepSeek-R1"), HasSubstr("SmolLM2-135M")));
  EXPECT_THAT(refusal({"--role", "decode", "--context-bytes", "32", "--connect",
                       listening->at("address").get<std::string>()}),
              HasSubstr("context"));
}

TEST(BadInput, ModelFileWithoutAKey) {
  const TextFile config("config.json", R"({"num_hidden_layers": 30, "hidden_size": 576})");
  EXPECT_THAT(refusal({"--model", config.path()}),
              AllOf(HasSubstr("--model"), HasSubstr(config.path()),
                    HasSubstr("\"num_attention_heads\" is missing")));
}

TEST(BadInput, UnknownModel) {
  EXPECT_THAT(refusal({"--model", "no-such-model"}),
              AllOf(HasSubstr("--model"), HasSubstr("no-such-model"), HasSubstr("SmolLM2-135M")));
}

TEST(BadInput, PageSizeZero) {
  EXPECT_THAT(refusal({"--page-tokens", "0"}),
              AllOf(HasSubstr("--page-tokens"), HasSubstr("1"), HasSubstr("4096")));
}

TEST(BadInput, MoreTokensThanThePoolHolds) {
  EXPECT_THAT(refusal({"--pool-pages", "1"}),
              AllOf(HasSubstr("--pool-pages"), HasSubstr("pool of a node holds 1")));
  EXPECT_THAT(refusal({"--memory-gib", "0.001"}), HasSubstr("--memory-gib"));
}

TEST(BadInput, PromptThatOnlyTheDecodePoolHolds) {
  ExampleProcess prefill(with(kSmall, {"--role", "prefill", "--pool-pages", "1", "--json"}));
  const auto listening = prefill.wait_for_event("listening");
  ASSERT_TRUE(listening) << prefill.said();
  ExampleProcess decode(
      with(kSmall, {"--role", "decode", "--connect", listening->at("address").get<std::string>()}));
  EXPECT_EQ(decode.wait(), 1) << decode.said();
  EXPECT_THAT(decode.said(), HasSubstr("the prefill node has room for 64"));
}

TEST(BadInput, TraceLineThatIsNotJson) {
  const TextFile trace("trace.jsonl",
                       "{\"input_length\": 3, \"hash_ids\": [1]}\n\nthis is not JSON\n");
  EXPECT_THAT(refusal({"--trace", trace.path()}),
              AllOf(HasSubstr("--trace"), HasSubstr("line 3"), HasSubstr("is not JSON")));
}

TEST(BadInput, TraceThatIsNotThere) {
  EXPECT_THAT(refusal({"--trace", "/nowhere.jsonl"}),
              AllOf(HasSubstr("--trace"), HasSubstr("/nowhere.jsonl")));
}

TEST(BadInput, OptionsThatDoNotGoTogether) {
  EXPECT_THAT(refusal({"--role", "decode"}), HasSubstr("--connect"));
  EXPECT_THAT(refusal({"--connect", "127.0.0.1:1"}), HasSubstr("--role decode"));
  EXPECT_THAT(refusal({"--slice", "3/3"}), HasSubstr("--slice"));
  EXPECT_THAT(refusal({"--no-such-option"}), HasSubstr("--no-such-option"));
}

TEST(BadInput, ShardingThatTheModelDoesNotAllow) {
  EXPECT_THAT(refusal({"--tp", "2"}),
              AllOf(HasSubstr("tensor_parallel is 2"), HasSubstr("3 heads")));
  EXPECT_THAT(refusal({"--decode-tp", "5"}), HasSubstr("tensor_parallel is 5"));
  EXPECT_THAT(refusal({"--pp", "31"}),
              AllOf(HasSubstr("pipeline_parallel is 31"), HasSubstr("30")));
  EXPECT_THAT(refusal({"--layout", "dhn"}), AllOf(HasSubstr("--layout"), HasSubstr("hnd")));
}

}  // namespace
}  // namespace mock_engine
