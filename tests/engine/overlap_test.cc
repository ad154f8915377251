// Steps that are submitted before the tokens of the one before them are collected: whatever the host then
// decides, requests get the tokens that they get without, and kept states are those of delivered tokens.
#include "engine/scripted_model.h"
#include "variable.h"

namespace anabranch::testing {
namespace {

constexpr SpecMode kOff{.automatic = false, .source = DraftSource::none};

// The scripted model of the last engine that with_overlap() made.
const ScriptedModel* last_model = nullptr;

template <class Make>
std::unique_ptr<Engine> with_overlap(bool overlap, const Make& make) {
  const Variable variable("ANABRANCH_OVERLAP", overlap ? "1" : "0");
  auto engine = make();
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

std::unique_ptr<Engine> scripted(bool overlap, const std::vector<Script>& scripts) {
  const auto load = scripted_model(scripts);
  const LoadFunction noting = [load](std::shared_ptr<Device> device) -> Result<LoadedModel> {
    auto loaded = load(std::move(device));
    last_model = static_cast<const ScriptedModel*>(loaded->model.get());
    return loaded;
  };
  return with_overlap(overlap, [&] { return create_engine({}, noting); });
}

std::unique_ptr<Engine> hybrid(bool overlap, const TinyModel& model, bool cache, uint64_t memory = 0) {
  return with_overlap(overlap, [&] {
    EngineOptions options;
    options.model_path = model.path();
    options.device.threads = 2;
    options.cache.enabled = cache;
    options.cache.ram_bytes = 1ull << 28;
    options.memory_bytes = memory;
    return Engine::create(options);
  });
}

Request scripted_request(int script, int max_tokens) {
  Request r = request_of(5, max_tokens, 0);
  r.prompt[0] = script;
  r.ignore_eos = false;
  r.speculation = kOff;
  return r;
}

// Ends by itself, by a stop string, by max_tokens; has refused tokens; has a thought that is cut.
const std::vector<Script> kScripts = {
    [](const std::vector<int>& t) { return t.size() == 40 ? kEos : static_cast<int>(t.size()) % 90; },
    [](const std::vector<int>& t) {
      return t.size() % 9 == 0 ? kToolCall : static_cast<int>(t.size() % 7) + 65;
    },
    [](const std::vector<int>& t) { return t.size() % 10 == 8 ? kEos : static_cast<int>(t.size()) % 90; }};

std::vector<Request> scripted_requests() {
  std::vector<Request> out = {scripted_request(0, 100), scripted_request(0, 100), scripted_request(0, 7),
                              scripted_request(1, 60),  scripted_request(2, 60),  scripted_request(2, 60)};
  out[1].stop = {std::string(1, static_cast<char>('!' + 20))};
  out[3].thinking.calls = CallPolicy::none;
  out[4].output.thinking_open = out[5].output.thinking_open = true;
  out[5].thinking.budget = 2;
  return out;
}

TEST(Overlap, WhateverTheHostDecides) {
  const auto before = scripted(false, kScripts);
  const auto* plain_model = last_model;
  const auto after = scripted(true, kScripts);
  std::vector<Collector::Record> want;
  for (const Request& request : scripted_requests()) want.push_back(run_to_end(*before, request));
  EXPECT_EQ(plain_model->followed(), 0);
  Collector collector;
  const auto requests = scripted_requests();
  for (size_t i = 0; i < requests.size(); i++) {
    SCOPED_TRACE(i);
    EXPECT_GE(want[i].tokens.size(), 7u);
    EXPECT_EQ(run_to_end(*after, requests[i]).tokens, want[i].tokens) << "alone";
    ASSERT_TRUE(after->submit(requests[i], collector.sink(static_cast<int>(i))).ok());
  }
  for (size_t i = 0; i < requests.size(); i++) {
    const auto got = collector.wait(static_cast<int>(i));
    EXPECT_EQ(got.tokens, want[i].tokens) << i;
    EXPECT_EQ(got.last.finish, want[i].last.finish) << i;
    EXPECT_EQ(got.last.usage.cut, want[i].last.usage.cut) << i;
  }
  EXPECT_GT(last_model->followed(), 200);
  EXPECT_EQ(want[5].last.usage.cut, "thinking_budget");
}

TEST(Overlap, DraftsAreMadeWhereTheyPay) {
  const auto engine =
      scripted(true, {[](const std::vector<int>& t) { return static_cast<int>(t.size()) % 5 + 40; }});
  Request request = scripted_request(0, 200);
  request.ignore_eos = true;
  request.speculation = SpecMode{.automatic = false, .source = DraftSource::ngram, .depth = 4};
  const auto got = run_to_end(*engine, request);
  EXPECT_EQ(got.tokens.size(), 200u);
  EXPECT_GT(got.last.usage.speculation.sources[static_cast<size_t>(DraftSource::ngram)].accepted, 100);

  // Left to the engine: passes cost the same whatever their rows.
  ScriptedModel::pass_time = std::chrono::milliseconds(2);
  request.speculation = SpecMode{};
  const uint64_t steps = engine->stats().steps;
  EXPECT_EQ(run_to_end(*engine, request).tokens, got.tokens);
  EXPECT_LT(engine->stats().steps - steps, 100u);
  ScriptedModel::pass_time = std::chrono::microseconds(0);
}

// An answer's state is kept without the token that ends it, though a pass may have read that.
TEST(Overlap, KeptStatesAreOfDeliveredTokens) {
  const TinyModel model("qwen35_nested_untied_grouped");
  const auto plain = hybrid(false, model, false);
  for (const bool overlap : {false, true}) {
    const auto engine = hybrid(overlap, model, true);
    for (int i = 0; i < 6; i++) {
      Request first = request_of(60 + i, 40, 0.9f, 5 + static_cast<uint64_t>(i));
      first.ignore_eos = false;
      first.stop = {"e", "a", "\xc3"};
      first.speculation = kOff;
      const auto answer = run_to_end(*engine, first);
      EXPECT_EQ(answer.tokens, run(*plain, first)) << i;
      // Goes on with another token than the answer's last one.
      Request next = request_of(1, 20, 0.9f, 77);
      next.prompt = first.prompt;
      next.prompt.insert(next.prompt.end(), answer.tokens.begin(), answer.tokens.end() - 1);
      const int known = static_cast<int>(next.prompt.size());
      next.prompt.push_back((answer.tokens.back() + 1) % 250);
      next.prompt.push_back(7);
      const auto got = run_to_end(*engine, next);
      EXPECT_EQ(got.last.usage.cached_tokens, known) << i;
      EXPECT_EQ(got.tokens, run(*plain, next)) << i;
    }
  }
}

// Blocks that a sliding window has left may be needed again when a token is taken back.
TEST(Overlap, SlidingWindows) {
  for (const char* name : {"gemma3", "gemma4_shared_kv"}) {
    const TinyModel model(name);
    const auto plain = hybrid(false, model, false), engine = hybrid(true, model, true);
    Collector collector;
    std::vector<Request> requests;
    for (int i = 0; i < 8; i++) {
      requests.push_back(request_of(230 + i, 40, 0.9f, 5 + static_cast<uint64_t>(i)));
      requests.back().stop = {"e", "\xc3"};
      requests.back().ignore_eos = i % 2 == 0;
      requests.back().speculation = kOff;
    }
    for (const char* round : {"cold", "kept"}) {
      const int first = *round == 'c' ? 0 : 100;
      for (int i = 0; i < 8; i++)
        ASSERT_TRUE(engine->submit(requests[static_cast<size_t>(i)], collector.sink(first + i)).ok());
      for (int i = 0; i < 8; i++)
        EXPECT_EQ(collector.wait(first + i).tokens, run(*plain, requests[static_cast<size_t>(i)]))
            << name << " " << round << " " << i;
    }
  }
}

// The host refuses a token of most of them, so that what was computed ahead is taken back, too.
TEST(Overlap, CancelledAndPreemptedOnesDisturbNobody) {
  const TinyModel model("qwen35_nested_untied_grouped");
  model.write("tokenizer.json", scripted_tokenizer());
  Json config = parse_json(*read_file(model.path() + "/config.json", 1 << 20)).value();
  config["eos_token_id"] = 262;  // of no text
  model.write("config.json", config.dump());
  std::vector<Request> requests;
  for (int i = 0; i < 6; i++)
    requests.push_back(request_of(150 + 20 * i, 400, 1.5f, static_cast<uint64_t>(i)));
  const auto plain = hybrid(false, model, false);
  std::vector<std::vector<int>> want;
  int refused = 0;
  for (Request& request : requests) {
    request.speculation = kOff;
    request.ignore_eos = false;
    request.thinking.loops = LoopRule::none;
    request.thinking.calls = CallPolicy::text;
    const auto free = run(*plain, request);
    request.thinking.calls = CallPolicy::none;
    want.push_back(run(*plain, request));
    refused += want.back() != free;
  }
  EXPECT_GE(refused, 3) << "or nothing is taken back";
  const ModelInfo& info = plain->info();
  for (const bool cache : {true, false}) {
    const auto engine = hybrid(true, model, cache,
                               6 * (2 * info.state_bytes + info.draft_state_bytes) +
                                   3 * 512 * (info.kv_bytes_per_token + info.draft_kv_bytes_per_token));
    Collector collector;
    std::vector<RequestId> cancelled;
    for (int i = 0; i < 6; i++) {
      ASSERT_TRUE(engine->submit(requests[static_cast<size_t>(i)], collector.sink(i)).ok());
      cancelled.push_back(*engine->submit(request_of(30, 1000), collector.sink(100 + i)));
    }
    collector.wait_for_tokens(0, 20);
    for (const RequestId id : cancelled) engine->cancel(id);
    for (int i = 0; i < 6; i++) {
      EXPECT_EQ(collector.wait(i).tokens, want[static_cast<size_t>(i)]) << i;
      EXPECT_EQ(collector.wait(100 + i).last.finish, FinishReason::cancelled);
    }
    EXPECT_GT(engine->stats().preempted, 0u);
    EXPECT_EQ(engine->stats().state_bytes, 0u);
  }
}

// The host refuses every second token or so. A preempted sequence is read again: as many tokens as it has.
TEST(Overlap, WhatIsTakenBackIsNotReadAgainAfterAPreemption) {
  const TinyModel model("lfm2_biases");
  model.write("tokenizer.json", scripted_tokenizer());
  model.set_config("eos_token_id", 262);  // of no text
  model.edit_tensors([](const std::string& name, std::vector<int64_t>& shape, std::string& bytes) {
    if (name != "lm_head.weight") return;
    std::vector<float> row(static_cast<size_t>(shape[1]));
    char* at = bytes.data() + kToolCall * row.size() * sizeof(float);
    std::memcpy(row.data(), at, row.size() * sizeof(float));
    for (float& value : row) value *= 20;
    std::memcpy(at, row.data(), row.size() * sizeof(float));
  });
  const auto plain = hybrid(false, model, false);
  constexpr int kTokens = 150;
  std::vector<Request> requests;
  std::vector<std::vector<int>> want;
  for (uint64_t seed = 0; requests.size() < 2 && seed < 100; seed++) {
    Request request = request_of(440, kTokens, 1.5f, seed);
    request.ignore_eos = false;
    request.speculation = kOff;
    request.thinking.loops = LoopRule::none;
    request.thinking.calls = CallPolicy::none;
    const auto tokens = run(*plain, request);
    if (tokens.size() < kTokens) continue;
    requests.push_back(request);
    want.push_back(tokens);
  }
  ASSERT_EQ(requests.size(), 2u);
  const ModelInfo& info = plain->info();
  const auto engine = hybrid(true, model, false, 4 * info.state_bytes + 3 * 512 * info.kv_bytes_per_token);
  Collector collector;
  for (int i = 0; i < 2; i++)
    ASSERT_TRUE(engine->submit(requests[static_cast<size_t>(i)], collector.sink(i)).ok());
  for (int i = 0; i < 2; i++) EXPECT_EQ(collector.wait(i).tokens, want[static_cast<size_t>(i)]) << i;
  EXPECT_EQ(engine->stats().preempted, 1u);
}

}  // namespace
}  // namespace anabranch::testing
