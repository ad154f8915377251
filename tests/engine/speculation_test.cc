// Speculation may cost time, never change a token: every source of drafts at every depth against decoding
// without any, over tiny random hybrids.
#include <algorithm>
#include <memory>

#include "engine/tiny_model.h"

namespace anabranch {
namespace {

using testing::Collector;
using testing::request_of;
using testing::run_to_end;
using testing::TinyModel;

constexpr SpecMode kOff{.automatic = false, .source = DraftSource::none};
constexpr SpecMode kAuto{.automatic = true};
constexpr SpecMode from(DraftSource source, int depth) {
  return {.automatic = false, .source = source, .depth = depth};
}

EngineOptions options_of(const TinyModel& model, const TinyModel* draft = nullptr, int threads = 1) {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = threads;
  if (draft) options.draft_path = draft->path();
  return options;
}

std::unique_ptr<Engine> start(const EngineOptions& options) {
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

Collector::Record run_with(Engine& engine, Request request, const SpecMode& mode) {
  request.speculation = mode;
  return run_to_end(engine, std::move(request));
}

std::string name_of_mode(const SpecMode& mode) {
  return mode.automatic ? "auto" : std::string(name_of(mode.source)) + " " + std::to_string(mode.depth);
}

void expect_same(const Collector::Record& got, const Collector::Record& want, const std::string& what) {
  EXPECT_EQ(got.tokens, want.tokens) << what;
  EXPECT_EQ(got.terminal, 1) << what;
  EXPECT_EQ(got.last.finish, want.last.finish) << what;
  EXPECT_EQ(got.last.usage.prompt_tokens, want.last.usage.prompt_tokens) << what;
  EXPECT_EQ(got.last.usage.completion_tokens, want.last.usage.completion_tokens) << what;
  EXPECT_EQ(got.last.usage.thinking_tokens, want.last.usage.thinking_tokens) << what;
  EXPECT_EQ(got.last.error, want.last.error) << what;
  EXPECT_EQ(static_cast<int>(got.tokens.size()), got.last.usage.completion_tokens) << what;
}

// The counters explain every token: each round gives what it accepted and one more (but the last, when it
// ends inside a draft), the first token is the prompt's.
void expect_counted(const Collector::Record& record, const std::string& what) {
  long tokens = 1;
  for (const auto& s : record.last.usage.speculation.sources) {
    tokens += s.rounds + s.accepted;
    long drafted = 0, accepted = 0;
    for (int i = 0; i < kMaxDraft; i++) {
      drafted += s.drafted_at[i];
      accepted += s.accepted_at[i];
      EXPECT_LE(s.accepted_at[i], s.drafted_at[i]) << what;
    }
    EXPECT_EQ(drafted, s.drafted) << what;
    EXPECT_EQ(accepted, s.accepted) << what;
  }
  const int ended = record.last.finish == FinishReason::stop;
  EXPECT_GE(tokens, record.last.usage.completion_tokens) << what;
  EXPECT_LE(tokens, record.last.usage.completion_tokens + ended) << what;
}

SpecCounters::Source counters(const Collector::Record& record, DraftSource source) {
  return record.last.usage.speculation.of(source);
}

// A grouped hybrid with an MTP head, calibrated so that exits and skips are often wrong.
class Speculation : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    full_ = std::make_unique<TinyModel>("qwen35_nested_untied_grouped");
    full_->write("speculation.json", R"({"version": 1, "exit_layers": [0, 1, 2], "skip_layers": [1]})");
    flat_ = std::make_unique<TinyModel>("qwen35_flat_tied");
    // Early exit after the last layer: every draft is right.
    flat_->write("speculation.json", R"({"version": 1, "exit_layers": [0, 1, 2, 3], "skip_layers": [3]})");
    close_ = std::make_unique<TinyModel>("qwen35_flat_tied");
    close_->disturb();
  }
  static void TearDownTestSuite() {
    full_.reset();
    flat_.reset();
    close_.reset();
  }
  static inline std::unique_ptr<TinyModel> full_, flat_, close_;
};

std::vector<Request> requests(int max_tokens) {
  std::vector<Request> out = {request_of(40, max_tokens, 0), request_of(3, max_tokens, 0.8f, 5),
                              request_of(130, max_tokens, 0.3f, 6), request_of(270, max_tokens, 1.0f, 7)};
  out[2].sampling.top_k = 20;
  out[3].sampling.top_p = 0.7f;
  // Copied text, and an open think block.
  for (int i = 0; i < 90; i++) out[2].prompt[i + 40] = out[2].prompt[i];
  out[1].output.thinking_open = true;
  return out;
}

// Drafts are cut where the grammar would refuse them, and nothing else changes.
TEST_F(Speculation, GrammarsGiveTheSameTokens) {
  const auto engine = start(options_of(*full_));
  const auto grammar = engine->compile_grammar(
      "root ::= \"[\" item (\", \" item){2,9} \"]\"\nitem ::= [a-z]{1,5} | \"\\\"\" [^\\\"]{0,4} \"\\\"\"");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  for (auto request : requests(64)) {
    request.grammar = *grammar;
    request.ignore_eos = request.output.thinking_open = false;
    const auto expected = run_with(*engine, request, kOff);
    EXPECT_EQ(expected.last.error, "");
    for (const DraftSource source : engine->info().draft_sources)
      for (const int depth : {1, 3, 15})
        expect_same(run_with(*engine, request, from(source, depth)), expected, std::string(name_of(source)));
  }
}

TEST_F(Speculation, EverySourceAndDepthGivesTheSameTokens) {
  const struct {
    const TinyModel *model, *draft;
  } pairs[] = {{full_.get(), flat_.get()}, {flat_.get(), close_.get()}};
  for (const auto& pair : pairs) {
    std::vector<Collector::Record> expected;
    for (const int threads : {1, 2}) {
      auto options = options_of(*pair.model, pair.draft, threads);
      options.prefill_chunk = threads == 1 ? 256 : 7;
      const auto engine = start(options);
      const auto wanted = requests(48);
      if (threads == 1)
        for (const auto& request : wanted) expected.push_back(run_with(*engine, request, kOff));
      std::vector<SpecMode> modes = {kOff, kAuto};
      for (const DraftSource source : engine->info().draft_sources)
        for (const int depth : {0, 1, 2, 3, 4, 15, 1000}) modes.push_back(from(source, depth));
      EXPECT_EQ(modes.size(), 2u + 7 * (engine->info().has_mtp ? 5 : 4));
      for (const auto& mode : modes)
        for (size_t i = 0; i < wanted.size(); i++) {
          const auto what = fmt::format("{}, request {}, {} threads", name_of_mode(mode), i, threads);
          const auto got = run_with(*engine, wanted[i], mode);
          expect_same(got, expected[i], what);
          expect_counted(got, what);
          if (mode.automatic || mode.source == DraftSource::none || mode.source == DraftSource::ngram)
            continue;
          EXPECT_GT(counters(got, mode.source).drafted, 0) << what;
        }
    }
  }
}

// A model drafting for itself, and an exit after the last layer, say what the model says: a draft that is
// wrong would show that a draft, a commit or a copy of the state is.
TEST_F(Speculation, DraftsOfTheModelItselfAreAllRight) {
  for (const bool precise : {false, true}) {
    auto options = options_of(*flat_, flat_.get());
    options.device.precise = precise;
    const auto engine = start(options);
    for (const float temperature : {0.0f, 0.9f})
      for (const auto source : {DraftSource::draft, DraftSource::exit})
        for (const int depth : {1, 2, 3, 4, 7, 15}) {
          const auto request = request_of(37, 200, temperature);
          const auto got = run_with(*engine, request, from(source, depth));
          const auto what = fmt::format("{} {}, temperature {}", name_of(source), depth, temperature);
          EXPECT_EQ(counters(got, source).accepted, counters(got, source).drafted) << what;
          EXPECT_GT(counters(got, source).drafted, 200 * depth / (depth + 1) - 16) << what;
          expect_same(got, run_with(*engine, request, kOff), what);
        }
  }
}

// m5-infer kept keys and values of drafts that were refused: after many partial acceptances, over several
// KV blocks, ours may not differ.
TEST_F(Speculation, NothingRemainsOfRefusedDrafts) {
  const auto engine = start(options_of(*flat_, close_.get()));
  for (const float temperature : {0.0f, 0.7f}) {
    const auto request = request_of(200, 900, temperature, 3);
    const auto want = run_with(*engine, request, kOff);
    for (const int depth : {2, 5, 15}) {
      const auto what = fmt::format("depth {}, temperature {}", depth, temperature);
      const auto got = run_with(*engine, request, from(DraftSource::draft, depth));
      expect_same(got, want, what);
      expect_counted(got, what);
      const auto& s = counters(got, DraftSource::draft);
      int partly = 0;  // positions at which acceptance ended in the middle of some draft
      for (int i = 0; i + 1 < depth; i++) partly += s.accepted_at[i] > s.accepted_at[i + 1];
      EXPECT_GE(partly, std::min(depth - 1, 5)) << what;
      EXPECT_LT(s.accepted, s.drafted) << what;
    }
  }
}

// m5-infer swallowed an end-of-turn token inside an accepted draft.
TEST_F(Speculation, EosInsideAnAcceptedDraftEndsTheAnswer) {
  const TinyModel model("qwen35_flat_tied");
  Request request = request_of(20, 120, 0.9f, 21);
  const auto free_run = run_with(*start(options_of(model)), request, kOff);
  request.ignore_eos = false;
  int inside = 0;
  for (const size_t at : {3u, 9u, 17u, 40u}) {
    const int eos = free_run.tokens[at];
    const auto first = std::find(free_run.tokens.begin(), free_run.tokens.end(), eos) + 1;
    const std::vector<int> expected(free_run.tokens.begin(), first);
    model.write("generation_config.json", Json{{"eos_token_id", eos}}.dump());
    const auto engine = start(options_of(model, &model));
    if (run_with(*engine, request, kOff).tokens != expected) continue;  // another id ends turns earlier
    for (const int depth : {1, 2, 4, 15}) {
      const auto got = run_with(*engine, request, from(DraftSource::draft, depth));
      const auto what = fmt::format("{} tokens, depth {}", expected.size(), depth);
      EXPECT_EQ(got.tokens, expected) << what;
      EXPECT_EQ(got.last.finish, FinishReason::stop) << what;
      EXPECT_EQ(got.last.usage.completion_tokens, static_cast<int>(expected.size())) << what;
      const auto& s = counters(got, DraftSource::draft);
      inside += s.accepted < s.drafted;  // all drafts are right: the rest came after the end
      expect_counted(got, what);
    }
  }
  EXPECT_GE(inside, 6);
}

// m5-infer went past max_tokens by what a draft still held.
TEST_F(Speculation, NeverMoreThanMaxTokens) {
  const auto engine = start(options_of(*flat_, flat_.get()));
  const auto all = run_with(*engine, request_of(11, 20, 0.9f), kOff).tokens;
  for (int most = 1; most <= 20; most++)
    for (const SpecMode& mode :
         {from(DraftSource::draft, 15), from(DraftSource::exit, 15), from(DraftSource::skip, 15), kAuto}) {
      const auto got = run_with(*engine, request_of(11, most, 0.9f), mode);
      const auto what = fmt::format("{}, {} tokens", name_of_mode(mode), most);
      EXPECT_EQ(got.tokens, std::vector<int>(all.begin(), all.begin() + most)) << what;
      EXPECT_EQ(got.last.finish, FinishReason::length) << what;
      EXPECT_EQ(got.last.usage.completion_tokens, most) << what;
      expect_counted(got, what);
      if (mode.source != DraftSource::draft && mode.source != DraftSource::exit) continue;
      EXPECT_EQ(counters(got, mode.source).drafted, counters(got, mode.source).accepted)
          << what << ": no draft was in vain";
    }
}

TEST_F(Speculation, TheContextEndsOnTheSameToken) {
  auto options = options_of(*flat_, flat_.get());
  options.context_length = 300;
  const auto engine = start(options);
  for (const int prompt : {1, 250, 285, 298, 299}) {
    const Request request = request_of(prompt, -1, 0.9f);
    const auto want = run_with(*engine, request, kOff);
    EXPECT_EQ(want.tokens.size(), 300u - prompt);
    for (const auto source : {DraftSource::ngram, DraftSource::draft, DraftSource::exit, DraftSource::skip})
      expect_same(run_with(*engine, request, from(source, 15)), want,
                  fmt::format("{}, prompt of {}", name_of(source), prompt));
  }
}

// A request is drafted for from an earlier answer to it, unless their salts differ or one shares nothing.
TEST_F(Speculation, AnswersAreCopiedUnderTheirOwnSaltOnly) {
  auto options = options_of(*full_);
  options.cache.enabled = true;
  auto engine = start(options);
  Request request = request_of(40, 80, 0.8f);
  const auto want = run_with(*engine, request, kOff);
  const auto accepted = [&](const std::string& salt, bool shares) {
    request.cache_salt = salt;
    request.cache = shares;
    const auto got = run_with(*engine, request, from(DraftSource::ngram, 15));
    expect_same(got, want, salt);
    expect_counted(got, salt);
    return counters(got, DraftSource::ngram).accepted;
  };
  const long alone = accepted("a", false);
  EXPECT_LT(alone, 20);
  EXPECT_EQ(accepted("a", true), alone) << "what shared nothing";
  EXPECT_GT(accepted("a", true), 60);
  EXPECT_EQ(accepted("", true), alone);
  EXPECT_EQ(accepted("b", true), alone);
  EXPECT_EQ(accepted("a", false), alone);
  EXPECT_GT(accepted("b", true), 60);
  options.cache.enabled = false;  // nothing is kept for later requests then
  engine = start(options);
  for (int i = 0; i < 2; i++) EXPECT_EQ(accepted("b", true), alone);
}

// Past the draft model's own context it falls silent.
TEST_F(Speculation, ADraftModelMayHaveAShorterContext) {
  const TinyModel draft("qwen35_flat_tied");
  draft.set_config("max_position_embeddings", 64);
  const auto engine = start(options_of(*flat_, &draft));
  const Request request = request_of(20, 100, 0.9f);
  const auto got = run_with(*engine, request, from(DraftSource::draft, 4));
  expect_same(got, run_with(*engine, request, kOff), "draft");
  const auto& s = counters(got, DraftSource::draft);
  EXPECT_GT(s.drafted, 20);
  EXPECT_LE(s.drafted, 64);
  expect_same(run_with(*engine, request_of(90, 20), from(DraftSource::draft, 4)),
              run_with(*engine, request_of(90, 20), kOff), "a prompt beyond it");
}

// Tables are padded to different sizes within a family: a draft may name a token that the model lacks.
TEST_F(Speculation, ADraftModelMayHaveMoreTokens) {
  const TinyModel draft("qwen35_flat_tied");
  draft.set_config("vocab_size", 300);
  draft.edit_tensors([](const std::string& name, std::vector<int64_t>& shape, std::string& bytes) {
    if (name != "model.embed_tokens.weight") return;
    const std::string row = bytes.substr(0, bytes.size() / shape[0]);
    std::string large = row;
    for (size_t i = 0; i < row.size(); i += 2) large[i + 1] ^= (i / 2) % 2 ? 0x01 : 0x02;  // exponents
    for (; shape[0] < 300; shape[0]++) bytes += shape[0] % 2 ? large : row;
  });
  const auto engine = start(options_of(*flat_, &draft));
  for (const float temperature : {0.0f, 1.0f, 2.0f}) {
    const Request request = request_of(20, 100, temperature);
    expect_same(run_with(*engine, request, from(DraftSource::draft, 4)), run_with(*engine, request, kOff),
                fmt::format("temperature {}", temperature));
  }
}

TEST_F(Speculation, ADraftModelWithOtherTokensIsRefused) {
  for (const char* other : {"<later>", "<-think>"}) {
    const TinyModel draft("qwen35_flat_tied");
    std::string tokenizer = testing::byte_tokenizer();
    tokenizer.replace(tokenizer.find("</think>"), 8, other);
    draft.write("tokenizer.json", tokenizer);
    const auto engine = Engine::create(options_of(*flat_, &draft));
    ASSERT_FALSE(engine.ok()) << other;
    EXPECT_NE(engine.error().message.find("same tokenizer"), std::string::npos) << engine.error().message;
  }
}

// With the same tokenizer: the model may sample a token that the draft model has no row for.
TEST_F(Speculation, ADraftModelWithFewerRowsIsRefused) {
  const TinyModel padded("qwen35_flat_tied");
  padded.set_config("vocab_size", 300);
  padded.edit_tensors([](const std::string& name, std::vector<int64_t>& shape, std::string& bytes) {
    if (name != "model.embed_tokens.weight") return;
    const std::string row = bytes.substr(0, bytes.size() / shape[0]);
    for (; shape[0] < 300; shape[0]++) bytes += row;
  });
  const auto engine = Engine::create(options_of(padded, flat_.get()));
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("same tokenizer"), std::string::npos) << engine.error().message;
  EXPECT_TRUE(Engine::create(options_of(*flat_, &padded)).ok());
}

TEST_F(Speculation, StopStringsInsideADraftEndTheAnswer) {
  const auto engine = start(options_of(*flat_, flat_.get()));
  const Request free = request_of(20, 60, 0.9f);
  const std::string text = engine->tokenizer().decode(run_with(*engine, free, kOff).tokens, true);
  for (const size_t at : {text.size() / 4, text.size() / 2, text.size() * 3 / 4}) {
    Request request = free;
    request.stop = {"no such text", text.substr(at, 3)};
    const auto want = run_with(*engine, request, kOff);
    EXPECT_EQ(want.last.finish, FinishReason::stop);
    for (const int depth : {1, 3, 15})
      for (const auto source : {DraftSource::draft, DraftSource::exit})
        expect_same(run_with(*engine, request, from(source, depth)), want,
                    fmt::format("{} {}, stop at {}", name_of(source), depth, at));
  }
}

TEST_F(Speculation, CancellingInTheMiddleHarmsNoOther) {
  const auto engine = start(options_of(*flat_, close_.get()));
  const Request request = request_of(20, 60, 0.9f);
  const auto want = run_with(*engine, request, kOff);
  for (const auto source : {DraftSource::draft, DraftSource::exit, DraftSource::ngram}) {
    Collector collector;
    Request endless = request_of(30, 3000, 0.9f);
    endless.speculation = from(source, 15);
    const auto id = engine->submit(endless, collector.sink(0));
    ASSERT_TRUE(id.ok());
    Request behind = request;
    behind.speculation = from(source, 3);
    ASSERT_TRUE(engine->submit(behind, collector.sink(1)).ok());
    collector.wait_for_tokens(0, 25);
    engine->cancel(*id);
    const auto cancelled = collector.wait(0);
    EXPECT_EQ(cancelled.last.finish, FinishReason::cancelled);
    EXPECT_EQ(cancelled.last.usage.completion_tokens, static_cast<int>(cancelled.tokens.size()));
    EXPECT_EQ(std::vector<int>(cancelled.tokens.begin(), cancelled.tokens.begin() + 25),
              std::vector<int>(run_with(*engine, request_of(30, 25, 0.9f), kOff).tokens));
    expect_same(collector.wait(1), want, name_of(source));
  }
}

// Leaving layers out for good makes another model; drafts for it leave its tokens alone too. Its exit runs
// a layer that the model itself leaves out.
TEST_F(Speculation, ALossyModelIsSpeculatedForAsWell) {
  auto options = options_of(*flat_, close_.get());
  options.lossy_skip = true;
  const auto engine = start(options);
  const Request request = request_of(600, 60, 0.9f);
  const auto want = run_with(*engine, request, kOff);
  EXPECT_NE(want.tokens, run_with(*start(options_of(*flat_)), request, kOff).tokens);
  for (const auto source : engine->info().draft_sources)
    expect_same(run_with(*engine, request, from(source, 4)), want, name_of(source));
  expect_same(run_with(*engine, request, kAuto), want, "auto");
}

// Drafts from part of the vocabulary meet the same noise: those the part holds are as right as ever.
TEST_F(Speculation, DraftsFromPartOfTheVocabulary) {
  const TinyModel model("qwen35_flat_tied");
  Json ids = Json::array();
  for (int id = 0; id < 263; id += 2) ids.push_back(id);
  model.write("speculation.json",
              Json{{"version", 1}, {"exit_layers", {0, 1, 2, 3}}, {"draft_vocab", ids}}.dump());
  const auto engine = start(options_of(model));
  const Request request = request_of(20, 300, 0.9f);
  const auto want = run_with(*engine, request, kOff);
  const auto even =
      std::count_if(want.tokens.begin() + 1, want.tokens.end(), [](int t) { return t % 2 == 0; });
  for (const int depth : {1, 3, 15})
    expect_same(run_with(*engine, request, from(DraftSource::exit, depth)), want,
                fmt::format("depth {}", depth));
  const auto& s = counters(run_with(*engine, request, from(DraftSource::exit, 1)), DraftSource::exit);
  EXPECT_GT(s.accepted, 30);
  EXPECT_LE(s.accepted, even);
}

// A file from another model: layers that this one lacks are not run.
TEST_F(Speculation, ACalibrationForMoreLayersIsNotUsed) {
  const TinyModel model("qwen35_flat_tied");
  model.write(
      "speculation.json",
      R"({"version": 1, "exit_layers": [0, 1, 9], "skip_layers": [9], "draft_vocab": [5, 262, 263, 900]})");
  const auto engine = start(options_of(model));
  const auto& sources = engine->info().draft_sources;
  EXPECT_EQ(std::count(sources.begin(), sources.end(), DraftSource::exit), 0);
  const Request request = request_of(20, 60, 0.9f);
  const auto want = run_with(*engine, request, kOff);
  EXPECT_EQ(want.tokens.size(), 60u);
  for (const auto source : sources)
    expect_same(run_with(*engine, request, from(source, 4)), want, name_of(source));
  expect_same(run_with(*engine, request, kAuto), want, "auto");
}

TEST_F(Speculation, SourcesThatAreNotThereAreRefused) {
  const TinyModel bare("qwen35_flat_tied");
  const auto engine = start(options_of(bare));
  EXPECT_EQ(engine->info().draft_sources, std::vector<DraftSource>{DraftSource::ngram});
  Collector collector;
  for (const auto source : {DraftSource::mtp, DraftSource::draft, DraftSource::exit, DraftSource::skip}) {
    Request request = request_of(4, 4);
    request.speculation = from(source, 2);
    const auto id = engine->submit(request, collector.sink(0));
    ASSERT_FALSE(id.ok()) << name_of(source);
    EXPECT_EQ(id.error().kind, ErrorKind::invalid);
    EXPECT_NE(id.error().message.find(name_of(source)), std::string::npos) << id.error().message;
    auto options = options_of(bare);
    options.speculation = from(source, 2);
    EXPECT_FALSE(Engine::create(options).ok()) << name_of(source);
  }
}

}  // namespace
}  // namespace anabranch
