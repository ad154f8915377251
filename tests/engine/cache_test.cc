// A state that comes from the cache, whatever the tier and the way it took, never changes a token.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cache/disk_tools.h"
#include "engine/tiny_model.h"

namespace anabranch {
namespace {

using testing::Collector;
using testing::request_of;
using testing::run_to_end;
using testing::TempDir;
using testing::TinyModel;

constexpr const char* kHybrid = "qwen35_nested_untied_grouped";  // with an MTP head
constexpr const char* kAttention = "llama_tied";

std::unique_ptr<Engine> start(const TinyModel& model, CacheOptions cache = {}) {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  options.cache = std::move(cache);
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

CacheOptions in_memory(uint64_t bytes = 1ull << 30) {
  CacheOptions cache;
  cache.enabled = true;
  cache.ram_bytes = bytes;
  return cache;
}

CacheOptions on_disk(const TempDir& dir) {
  CacheOptions cache = in_memory();
  cache.directory = dir.file("states");
  cache.disk_bytes = 1ull << 30;
  return cache;
}

// Turns of two conversations that begin alike, one that goes back, and the same prompt twice.
std::vector<Request> conversation() {
  std::vector<Request> turns;
  const auto add = [&](int from, int length, int keep, float temperature, uint64_t seed) {
    Request request = request_of(1, 40, temperature, seed);
    request.ignore_eos = true;
    request.prompt.clear();
    for (int i = 0; i < length; i++) {
      const int other = i >= from ? 31 * from : 0;  // differs from the first turn's from here on
      request.prompt.push_back((i * 7 + i / 11 + other) % 250);
    }
    if (keep > 0) request.keep_at = {keep};
    turns.push_back(request);
  };
  add(100000, 300, 280, 0, 1);
  add(100000, 500, 450, 0.8f, 2);
  add(400, 420, 405, 0, 3);
  add(400, 420, 405, 0, 3);
  add(300, 700, 0, 0.5f, 4);
  add(90, 260, 0, 0, 5);
  add(450, 900, 800, 0, 6);
  turns.push_back(turns.back());
  for (size_t i = 820; i < 900; i++) turns.back().prompt[i] = static_cast<int>(i % 90);
  return turns;
}

struct Ran {
  std::vector<Collector::Record> records;
  std::vector<int> cached() const {
    std::vector<int> out;
    for (const auto& r : records) out.push_back(r.last.usage.cached_tokens);
    return out;
  }
};

Ran run(Engine& engine, const std::vector<Request>& requests) {
  Ran out;
  for (const Request& request : requests) out.records.push_back(run_to_end(engine, request));
  return out;
}

void expect_same_tokens(const Ran& got, const Ran& want, const std::string& what) {
  ASSERT_EQ(got.records.size(), want.records.size());
  for (size_t i = 0; i < got.records.size(); i++) {
    EXPECT_EQ(got.records[i].tokens, want.records[i].tokens) << what << ", request " << i;
    EXPECT_EQ(got.records[i].last.finish, want.records[i].last.finish) << what << ", request " << i;
  }
}

class CacheOf : public ::testing::TestWithParam<const char*> {};

TEST_P(CacheOf, TokensAreThoseOfAColdRunFromMemory) {
  const TinyModel model(GetParam());
  const auto requests = conversation();
  const Ran cold = run(*start(model), requests);
  for (const int t : cold.cached()) EXPECT_EQ(t, 0);
  const auto engine = start(model, in_memory());
  const Ran warm = run(*engine, requests);
  expect_same_tokens(warm, cold, "in memory");
  const auto cached = warm.cached();
  EXPECT_EQ(cached[0], 0);
  EXPECT_GE(cached[1], 280);  // kept where the request said
  EXPECT_GE(cached[3], 405);  // the same prompt again
  EXPECT_GE(cached[7], 800);
  const auto stats = engine->stats();
  ASSERT_TRUE(stats.cache);
  EXPECT_EQ(stats.cache->lookups, requests.size());
  EXPECT_GT(stats.cache->ram_hits, 4u);
  EXPECT_EQ(stats.cache->ram_tokens, stats.cache->cached_tokens);
  EXPECT_EQ(stats.cache->disk_tokens, 0u);
  expect_same_tokens(run(*engine, requests), cold, "in memory, again");
}

TEST_P(CacheOf, TokensAreThoseOfAColdRunFromDisk) {
  const TinyModel model(GetParam());
  const TempDir dir;
  const auto requests = conversation();
  const Ran cold = run(*start(model), requests);
  expect_same_tokens(run(*start(model, on_disk(dir)), requests), cold, "written");
  const auto engine = start(model, on_disk(dir));
  const Ran warm = run(*engine, requests);
  expect_same_tokens(warm, cold, "read");
  for (size_t i = 0; i < requests.size(); i++)
    EXPECT_GE(warm.cached()[i], 200) << "request " << i;  // the first ones too, now
  const auto stats = *engine->stats().cache;
  EXPECT_GT(stats.disk_hits, 0u);
  EXPECT_GT(stats.disk_tokens, 256u);
  EXPECT_GT(stats.ram_tokens, 256u);  // of what was read before
  EXPECT_EQ(stats.ram_tokens + stats.disk_tokens, stats.cached_tokens);
}

TEST_P(CacheOf, TokensAreThoseOfAColdRunUnderPressure) {
  const TinyModel model(GetParam());
  const auto requests = conversation();
  const Ran cold = run(*start(model), requests);
  for (const uint64_t bytes : {1ull, 200'000ull, 1'000'000ull}) {
    const auto engine = start(model, in_memory(bytes));
    expect_same_tokens(run(*engine, requests), cold, std::to_string(bytes) + " bytes");
    EXPECT_LE(engine->stats().cache->ram_bytes, bytes);
  }
  const TempDir dir;
  auto both = on_disk(dir);
  both.ram_bytes = 1;
  const auto engine = start(model, both);
  expect_same_tokens(run(*engine, requests), cold, "disk only");
  expect_same_tokens(run(*engine, requests), cold, "disk only, again");
  EXPECT_LE(engine->stats().cache->ram_bytes, 1u);
}

TEST_P(CacheOf, DamagedFilesCostTimeOnly) {
  const TinyModel model(GetParam());
  const TempDir dir;
  const auto requests = conversation();
  const Ran cold = run(*start(model), requests);
  run(*start(model, on_disk(dir)), requests);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.file("states")))
    if (entry.is_regular_file()) files.push_back(entry.path());
  ASSERT_GT(files.size(), 8u);
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i < files.size(); i += 3) {
    const auto size = std::filesystem::file_size(files[i]);
    if (i % 2 == 0) {
      std::filesystem::resize_file(files[i], size / 2);
    } else {
      std::fstream file(files[i], std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<long>(size - 1));
      file.put('x');
      file.seekp(static_cast<long>(size / 2));
      file.put('y');
    }
  }
  expect_same_tokens(run(*start(model, on_disk(dir)), requests), cold, "damaged");
}

// The reference backend keeps keys and values in another layout.
TEST_P(CacheOf, TokensAreThoseOfAColdRunOnTheReferenceBackend) {
  const TinyModel model(GetParam());
  const TempDir dir;
  EngineOptions options;
  options.model_path = model.path();
  options.device.reference = true;
  std::vector<Request> requests(2, conversation()[1]);
  for (auto& request : requests) request.max_tokens = 8;
  const Ran cold = run(**Engine::create(options), requests);
  options.cache = on_disk(dir);
  expect_same_tokens(run(**Engine::create(options), requests), cold, "in memory");
  const Ran warm = run(**Engine::create(options), requests);
  expect_same_tokens(warm, cold, "on disk");
  EXPECT_GE(warm.cached()[0], 450);
}

TEST_P(CacheOf, SaltsAndRefusals) {
  const TinyModel model(GetParam());
  const auto engine = start(model, in_memory());
  Request request = conversation()[1];
  EXPECT_EQ(run_to_end(*engine, request).last.usage.cached_tokens, 0);
  EXPECT_GE(run_to_end(*engine, request).last.usage.cached_tokens, 450);
  request.cache_salt = "another tenant";
  EXPECT_EQ(run_to_end(*engine, request).last.usage.cached_tokens, 0);
  EXPECT_GE(run_to_end(*engine, request).last.usage.cached_tokens, 450);
  request.cache = false;
  EXPECT_EQ(run_to_end(*engine, request).last.usage.cached_tokens, 0);
}

CacheOptions in_8_bits(CacheOptions cache) {
  cache.kv = KvFormat::q8;
  return cache;
}

// Lossy, but the same whichever tier a state came from; less memory and disk.
TEST_P(CacheOf, In8BitsStatesAreFoundInMemoryAndOnDisk) {
  const TinyModel model(GetParam());
  const TempDir dir, exact_dir;
  const auto requests = conversation();
  const Ran first = run(*start(model, in_8_bits(on_disk(dir))), requests);
  const auto memory = start(model, in_8_bits(in_memory()));
  expect_same_tokens(run(*memory, requests), first, "for the first time");
  const auto disk = start(model, in_8_bits(on_disk(dir)));
  const Ran from_memory = run(*memory, requests), from_disk = run(*disk, requests);
  expect_same_tokens(from_disk, from_memory, "on disk");
  EXPECT_EQ(from_disk.cached(), from_memory.cached());
  for (const int cached : from_disk.cached()) EXPECT_GE(cached, 200);
  EXPECT_GT(disk->stats().cache->disk_hits, 0u);
  EXPECT_EQ(disk->stats().cache->kv, KvFormat::q8);

  const auto exact = start(model, on_disk(exact_dir));
  const Ran want = run(*exact, requests);
  EXPECT_EQ(first.records[0].tokens, want.records[0].tokens);  // nothing was found for it
  EXPECT_EQ(exact->stats().cache->kv, KvFormat::exact);
  EXPECT_LT(memory->stats().cache->ram_bytes, exact->stats().cache->ram_bytes);
}

TEST_P(CacheOf, ExactAndLossyStatesDoNotMeet) {
  const TinyModel model(GetParam());
  const TempDir dir;
  const Request request = conversation()[1];
  const auto cached = [&](const CacheOptions& cache) {
    return run_to_end(*start(model, cache), request).last.usage.cached_tokens;
  };
  EXPECT_EQ(cached(in_8_bits(on_disk(dir))), 0);
  EXPECT_EQ(cached(on_disk(dir)), 0);
  EXPECT_GE(cached(in_8_bits(on_disk(dir))), 450);
  EXPECT_GE(cached(on_disk(dir)), 450);
}

// What follows a lossy state is close to what follows an exact one, in each layout of keys and values.
TEST_P(CacheOf, In8BitsTheNextTokenIsAlmostAsLikely) {
  const TinyModel model(GetParam());
  for (const bool reference : {false, true}) {
    EngineOptions options;
    options.model_path = model.path();
    options.device.threads = 1;
    options.device.precise = true;  // no rounding of activations beside
    options.device.reference = reference;
    options.cache = in_8_bits(in_memory());
    const auto engine = std::move(*Engine::create(options));
    Request request = conversation()[1];
    request.sampling.temperature = 0;
    request.max_tokens = 1;
    request.logprobs = 0;
    const auto cold = run_to_end(*engine, request).last, warm = run_to_end(*engine, request).last;
    ASSERT_GE(warm.usage.cached_tokens, 450);
    ASSERT_EQ(warm.logprobs.size(), 1u);
    EXPECT_EQ(warm.tokens, cold.tokens);
    EXPECT_NEAR(warm.logprobs[0].logprob, cold.logprobs.at(0).logprob, 0.01);
  }
}

TEST_P(CacheOf, MissesSayWhy) {
  const TinyModel model(GetParam());
  const bool hybrid = std::string(GetParam()) == kHybrid;
  const TempDir dir;
  const auto cache = on_disk(dir);
  auto engine = start(model, cache);
  const auto ask = [&](std::vector<int> prompt, std::vector<int> keep_at) {
    Request request = request_of(1, 8, 0, 1);
    request.prompt = std::move(prompt);
    request.keep_at = std::move(keep_at);
    return run_to_end(*engine, request).last.usage.cached_tokens;
  };
  const auto stats = [&] { return *engine->stats().cache; };
  std::vector<int> prompt;
  for (int i = 0; i < 600; i++) prompt.push_back(i * 7 % 250);
  ask(prompt, {599});
  EXPECT_EQ(stats().misses.nothing_alike, 1u);
  EXPECT_NE(stats().last_miss, "");
  EXPECT_EQ(ask(prompt, {599}), 599);
  EXPECT_EQ(stats().last_miss, "");

  auto longer = prompt;
  longer.resize(599);
  longer.insert(longer.end(), 100, 3);
  EXPECT_EQ(ask(longer, {600}), 599);
  EXPECT_EQ(stats().misses.new_text, 1u);
  auto other = prompt;  // parts early
  for (size_t i = 100; i < other.size(); i++) other[i] = 5;
  EXPECT_EQ(ask(other, {599}), hybrid ? 0 : 100);
  EXPECT_EQ(stats().misses.differs, 1u);
  EXPECT_NE(stats().last_miss.find("at token 100"), std::string::npos);
  auto late = prompt;
  for (size_t i = 550; i < late.size(); i++) late[i] = 5;
  EXPECT_EQ(ask(late, {}), hybrid ? 100 : 550);  // where the one before parted
  EXPECT_EQ(stats().misses.no_state, hybrid ? 1u : 0u);
  EXPECT_EQ(stats().misses.differs, hybrid ? 1u : 2u);
  EXPECT_EQ(stats().no_state_tokens, hybrid ? 100u + 450u : 0u);

  engine.reset();
  engine = start(model, cache);
  ASSERT_TRUE(clear_records(cache.directory).ok());
  ask(prompt, {599});
  EXPECT_EQ(stats().misses.lost, 1u);
  EXPECT_EQ(stats().lost_tokens, 599u);
}

INSTANTIATE_TEST_SUITE_P(Families, CacheOf, ::testing::Values(kHybrid, kAttention),
                         [](const auto& info) { return info.index == 0 ? "Hybrid" : "Attention"; });

TEST(Cache, TokensOfOtherKindsOfLayersAreThoseOfAColdRun) {
  for (const char* name : {"deepseek_v3", "falcon_h1", "kimi_linear", "lfm2", "minimax_window"}) {
    const TinyModel model(name);
    const auto requests = conversation();
    const Ran cold = run(*start(model), requests), warm = run(*start(model, in_memory()), requests);
    expect_same_tokens(warm, cold, name);
    for (const auto& [request, least] : {std::pair{1, 280}, {3, 405}, {7, 800}})
      EXPECT_GE(warm.cached()[static_cast<size_t>(request)], least) << name;
  }
}

// An answer that is sent back: the next turn goes on where the last one ended.
TEST(Cache, GoesOnAfterAnAnswer) {
  for (const char* name : {kHybrid, kAttention}) {
    const TinyModel model(name);
    const auto engine = start(model, in_memory());
    Request request = conversation()[0];
    request.keep_at = {};
    const auto first = run_to_end(*engine, request);
    request.prompt.insert(request.prompt.end(), first.tokens.begin(), first.tokens.end());
    request.prompt.push_back(7);
    const int known = static_cast<int>(request.prompt.size()) - 2;  // the answer's last token was not applied
    EXPECT_EQ(run_to_end(*engine, request).last.usage.cached_tokens, known) << name;
  }
}

// With drafts of every source before and after: what the MTP head needs comes along.
TEST(Cache, SpeculationOnAndOff) {
  const TinyModel model(kHybrid);
  const auto requests = conversation();
  const Ran cold = run(*start(model), requests);
  const TempDir dir;
  const SpecMode modes[] = {{.automatic = false, .source = DraftSource::none},
                            {.automatic = false, .source = DraftSource::mtp, .depth = 3},
                            {.automatic = true},
                            {.automatic = false, .source = DraftSource::ngram}};
  for (const SpecMode& before : modes)
    for (const SpecMode& after : modes) {
      auto cache = on_disk(dir);
      cache.directory = dir.file(fmt::format("{}{}", &before - modes, &after - modes));
      auto first = requests, second = requests;
      for (auto& r : first) r.speculation = before;
      for (auto& r : second) r.speculation = after;
      const auto engine = start(model, cache);
      expect_same_tokens(run(*engine, first), cold, "before");
      expect_same_tokens(run(*engine, second), cold, "after, in memory");
      expect_same_tokens(run(*start(model, cache), second), cold, "after, on disk");
    }
}

// Drafts after a hit are as good as they were: the head's keys, values and hidden state are what they would
// be.
TEST(Cache, MtpDraftsAreThoseOfAColdRun) {
  const TinyModel model(kHybrid);
  Request request = conversation()[6];
  request.speculation = SpecMode{.automatic = false, .source = DraftSource::mtp, .depth = 2};
  const TempDir dir;
  const auto cold = run_to_end(*start(model, on_disk(dir)), request);
  const auto engine = start(model, on_disk(dir));
  for (const char* tier : {"disk", "memory"}) {
    const auto warm = run_to_end(*engine, request);
    EXPECT_GE(warm.last.usage.cached_tokens, 800) << tier;
    EXPECT_EQ(warm.tokens, cold.tokens) << tier;
    const auto &got = warm.last.usage.speculation.of(DraftSource::mtp),
               &want = cold.last.usage.speculation.of(DraftSource::mtp);
    EXPECT_EQ(got.rounds, want.rounds) << tier;
    EXPECT_EQ(got.accepted, want.accepted) << tier;
  }
}

// Other weights, other numerics: nothing is found.
TEST(Cache, StatesBelongToTheirModel) {
  const TempDir dir;
  const TinyModel model("qwen35_flat_tied"), other("qwen35_flat_tied");
  other.disturb();
  const Request request = conversation()[1];
  run_to_end(*start(model, on_disk(dir)), request);
  EXPECT_EQ(run_to_end(*start(other, on_disk(dir)), request).last.usage.cached_tokens, 0);
  EngineOptions options;
  options.model_path = model.path();
  options.cache = on_disk(dir);
  options.device.precise = true;
  EXPECT_EQ(run_to_end(**Engine::create(options), request).last.usage.cached_tokens, 0);
  EXPECT_GE(run_to_end(*start(model, on_disk(dir)), request).last.usage.cached_tokens, 450);
}

}  // namespace
}  // namespace anabranch
