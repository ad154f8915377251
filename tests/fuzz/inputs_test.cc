// Each entry of fuzz/ on its seeds, and on inputs that are made of them: the same ones in every run.
// script/fuzz looks further, with libFuzzer and sanitizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "slow.h"

#define ENTRY(name) extern "C" int fuzz_##name(const uint8_t*, size_t);
#include "fuzz/entries.inc"
#undef ENTRY

namespace anabranch {
namespace {

struct FuzzEntry {
  const char* name;
  int (*run)(const uint8_t*, size_t);
};

const FuzzEntry kEntries[] = {
#define ENTRY(name) {#name, fuzz_##name},
#include "fuzz/entries.inc"
#undef ENTRY
};

// Files of other tests that an entry may begin with.
const std::pair<std::string, const char*> kFixtures[] = {
    {"gguf", "checkpoint/data/llama.gguf"},
    {"gguf", "checkpoint/data/layouts/qwen35_ollama.gguf"},
    {"safetensors", "checkpoint/data/llama/model.safetensors"},
    {"config", "models/data/qwen35_nested_untied_grouped/model/config.json"},
};

std::vector<std::string> seeds_of(const std::string& name) {
  std::vector<std::filesystem::path> paths;
  for (const auto& [entry, file] : kFixtures)
    if (entry == name) paths.push_back(std::filesystem::path(ANABRANCH_SOURCE_DIR "/tests") / file);
  const std::filesystem::path folder = ANABRANCH_SOURCE_DIR "/fuzz/corpus/" + name;
  if (std::filesystem::exists(folder))
    for (const auto& file : std::filesystem::directory_iterator(folder)) paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) seeds.push_back(read_file(path.string(), 1 << 24).value());
  for (const char* common : {"", "{\"a\":[1,-2.5e3,null,\"\\u00e9\"]}", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"})
    seeds.push_back(common);
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string input(const std::vector<std::string>& seeds) {
    std::string text = seeds[below(seeds.size())];
    for (size_t edits = 1 + below(4); edits > 0; --edits) edit(text, seeds[below(seeds.size())]);
    return text;
  }

 private:
  size_t below(size_t end) { return end > 0 ? random_() % end : 0; }

  void edit(std::string& text, const std::string& other) {
    static constexpr char kOdd[] = {'\0', '\x7f', '\x80', '\xff', '"',  '\\', '{', '}',
                                    '[',  ']',    '<',    '>',    '\r', '\n', '9', '-'};
    const size_t at = below(text.size() + 1), size = below(std::min<size_t>(text.size() - at, 64) + 1);
    switch (below(6)) {
      case 0:
        text.insert(at, 1, kOdd[below(sizeof kOdd)]);
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      case 2:
        text.erase(at, size);
        break;
      case 3:  // once more
        text.insert(at, text.substr(at, size));
        break;
      case 4: {
        const size_t from = below(other.size() + 1);
        text.insert(at, other.substr(from, below(64)));
        break;
      }
      default:
        text.resize(at);
    }
  }

  std::mt19937 random_;
};

// What runs: an entry that finds something aborts.
const char* running_entry = "";
int running_input = -1;  // -1: a seed

void tell_input(int) {
  std::fprintf(stderr, "entry %s, input %d (-1: a seed)\n", running_entry, running_input);
  std::_Exit(134);
}

class FuzzInputs : public ::testing::TestWithParam<FuzzEntry> {};

TEST_P(FuzzInputs, AreTakenOrRefused) {
  const FuzzEntry& entry = GetParam();
  const auto seeds = seeds_of(entry.name);
  running_entry = entry.name;
  running_input = -1;
  const auto before = std::signal(SIGABRT, tell_input);
  const auto run = [&](const std::string& text) {
    EXPECT_EQ(entry.run(reinterpret_cast<const uint8_t*>(text.data()), text.size()), 0);
  };
  for (const std::string& seed : seeds) run(seed);
  Mutator mutator(7);
  for (running_input = 0; running_input < 10'000 / kSlowdown; ++running_input) run(mutator.input(seeds));
  std::signal(SIGABRT, before);
}

INSTANTIATE_TEST_SUITE_P(All, FuzzInputs, ::testing::ValuesIn(kEntries),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace anabranch
