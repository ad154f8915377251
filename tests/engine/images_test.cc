// Prompts with images: Transformers' answers, whatever happens while the images are encoded and read.
#include <atomic>
#include <filesystem>
#include <future>

#include "base/image_ids.h"
#include "cache/image_store.h"
#include "engine/crowd.h"
#include "engine/image_encoder.h"
#include "models/vision_golden.h"
#include "ops/open.h"

namespace anabranch::testing {
namespace {

using golden::VisionCase;

constexpr SpecMode kPlainly{.automatic = false, .source = DraftSource::none};
constexpr const char* kSee[] = {"qwen3_5_vision", "qwen3_vl", "gemma3_vision"};

// The vision checkpoint with the tokens of images in its tokenizer.
class SeeingModel : public TinyModel {
 public:
  explicit SeeingModel(const std::string& name) : TinyModel(name) {
    Json tokenizer = parse_json(byte_tokenizer()).value();
    const char* pad = name.starts_with("gemma") ? "<image_soft_token>" : "<|image_pad|>";
    for (const char* token : {"<video>", pad, "<begin>", "<end>"}) {
      Json added = tokenizer["added_tokens"].back();
      added["id"] = 256 + tokenizer["added_tokens"].size();
      added["content"] = token;
      tokenizer["added_tokens"].push_back(added);
    }
    write("tokenizer.json", tokenizer.dump());
  }
};

// Puts the image's ids at the prompt's end.
void append(Request& request, std::shared_ptr<const ProcessedImage> image, uint64_t key) {
  const RequestImage added{static_cast<int>(request.prompt.size()), {key, 7}, std::move(image)};
  for (int k = 0; k < added.image->tokens; k++) request.prompt.push_back(image_id(added.key, k));
  request.images.push_back(added);
}

std::shared_ptr<const ProcessedImage> golden_image(const VisionCase& from, int index) {
  return std::make_shared<const ProcessedImage>(from.images[static_cast<size_t>(index)].image);
}

// A picture of so many patches of Qwen's 4 x 4 pixels, all noise.
std::shared_ptr<const ProcessedImage> noise(int rows, int columns, uint32_t seed) {
  ProcessedImage image{.width = 4 * columns, .height = 4 * rows, .rows = rows, .columns = columns};
  image.tokens = rows / 2 * (columns / 2);
  for (int i = 0; i < image.width * image.height * 3; i++) {
    seed = seed * 1664525 + 1013904223;
    image.rgb.push_back(static_cast<uint8_t>(seed >> 24));
  }
  return std::make_shared<const ProcessedImage>(std::move(image));
}

Request golden_request(const VisionCase& from, const golden::VisionRun& run) {
  Request request = request_of(1, static_cast<int>(run.greedy.size()), 0);
  request.prompt.clear();
  request.speculation = kPlainly;
  auto next = run.images.begin();
  for (size_t i = 0; i < run.prompt.size(); i++) {
    if (run.prompt[i] != from.image_token) {
      request.prompt.push_back(run.prompt[i]);
      continue;
    }
    append(request, golden_image(from, *next), static_cast<uint64_t>(*next));
    i = request.prompt.size() - 1;
    ++next;
  }
  return request;
}

EngineOptions options_of(const TinyModel& model, bool cache = false) {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  options.max_gap_ms = 0;
  options.cache.enabled = cache;
  options.cache.ram_bytes = 1ull << 28;
  return options;
}

// Text, an image of 40 tokens that is not square, and text.
Request picture_request(uint64_t picture, int max_tokens = 100) {
  Request request = request_of(30, max_tokens, 0.9f, 4);
  request.speculation = kPlainly;
  append(request, noise(8, 20, static_cast<uint32_t>(picture)), picture);
  for (int i = 0; i < 9; i++) request.prompt.push_back(10 + i);
  return request;
}

TEST(EngineImages, AnswersAreTransformersHoweverThePromptIsCut) {
  for (const char* name : kSee) {
    const SeeingModel model(name);
    const VisionCase from = golden::read_vision_case(name);
    for (const int chunk : {4, 256}) {
      EngineOptions options = options_of(model, true);
      options.device.precise = true;
      options.prefill_chunk = chunk;
      const auto engine = engine_with(options, chunk == 4);
      ASSERT_TRUE(engine->info().images);
      for (const char* round : {"first", "again"})
        for (const golden::VisionRun& golden_run : from.runs) {
          Request request = golden_request(from, golden_run);
          request.logprobs = 0;
          const auto got = run_to_end(*engine, request);
          EXPECT_EQ(got.tokens, golden_run.greedy)
              << name << ", " << chunk << ", " << round << got.last.error;
          // Of the first token, behind the prompt's last position: tokens alone bear wrong places of images.
          const auto row = golden_run.log_probs.end() - from.vocab;
          EXPECT_NEAR(got.logprobs.at(0).logprob, row[golden_run.greedy[0]], 5e-4)
              << name << ", " << chunk << ", " << round;
        }
      expect_idle(*engine);
    }
  }
}

// A stream leaves time for a piece of an image in each step only.
TEST(EngineImages, WhoComesAfterAClientThatLeftSeesItsOwnImage) {
  const SeeingModel model("qwen3_5_vision");
  const auto large = [](uint64_t picture) {
    Request request = request_of(30, 20, 0.9f, 4);
    request.speculation = kPlainly;
    append(request, noise(16, 32, static_cast<uint32_t>(picture)), picture);
    request.prompt.push_back(10);
    return request;
  };
  const auto want = run(*engine_with(options_of(model), false), large(2));
  const auto engine = engine_with(options_of(model, true), false);
  EXPECT_NE(run(*engine, large(3)), want);
  Collector collector;
  RequestId left = 0;
  const auto come = [&] { left = *engine->submit(large(1), collector.sink(1)); };
  const auto leave = [&] {
    engine->cancel(left);
    EXPECT_TRUE(engine->submit(large(2), collector.sink(2)).ok());
  };
  Request stream = request_of(20, 1000, 0);
  stream.speculation = kPlainly;
  ASSERT_TRUE(
      engine->submit(stream, when_delivered(20, come, when_delivered(23, leave, collector.sink(0)))).ok());
  EXPECT_EQ(collector.wait(1).last.finish, FinishReason::cancelled);
  EXPECT_EQ(collector.wait(2).tokens, want);
  EXPECT_EQ(collector.wait(0).tokens.size(), 1000u);
  expect_idle(*engine);
}

TEST(EngineImages, TheirMemoryIsInTheBudgetAndPreemptionEncodesThemAgain) {
  const SeeingModel model("qwen3_5_vision");
  for (const bool overlap : {false, true}) {
    EngineOptions options = options_of(model, true);
    const auto plain = engine_with(options, overlap);
    const uint64_t of_image = 40ull * static_cast<uint64_t>(plain->info().hidden) * sizeof(float);
    Collector collector;
    uint64_t bytes = 0;
    const auto note = [&] { bytes = plain->stats().state_bytes; };
    ASSERT_TRUE(plain->submit(picture_request(5), when_delivered(2, note, collector.sink(0))).ok());
    const auto want = collector.wait(0).tokens;
    EXPECT_EQ(bytes, bytes_of_small_request(*plain) + of_image);

    options.memory_bytes = tight_memory(options, overlap, 1) + of_image;
    const auto engine = engine_with(options, overlap);
    Crowd crowd(*engine);
    for (const bool kept : {false, true}) {
      const uint64_t before = engine->stats().preempted;
      Request request = picture_request(5);
      request.cache = kept;
      Collector again;
      ASSERT_TRUE(engine
                      ->submit(request, when_delivered(
                                            5, [&] { crowd.come(); }, again.sink(0)))
                      .ok());
      EXPECT_EQ(again.wait(0).tokens, want) << kept;
      EXPECT_GT(engine->stats().preempted, before);
      crowd.expect_answers();
      expect_idle(*engine);
    }
  }
}

TEST(EngineImages, ImagesOfRequestsThatMustNotBeKeptLeaveNoFile) {
  const SeeingModel model("qwen3_5_vision");
  for (const bool keeps : {false, true}) {
    const TempDir dir;
    EngineOptions options = options_of(model, true);
    options.cache.directory = dir.file("states");
    auto engine = engine_with(options, false);
    Request request = picture_request(5, 2);
    request.cache = keeps;
    run(*engine, request);
    engine.reset();
    EXPECT_EQ(images_on_disk(options.cache.directory).files, keeps ? 1u : 0u);
  }
}

TEST(EngineImages, TheirFilesTakeAnEighthOfTheDiskBudgetAtMost) {
  const SeeingModel model("qwen3_5_vision");
  for (const uint64_t budget : {uint64_t{0}, uint64_t{8000}, uint64_t{1} << 24}) {
    const TempDir dir;
    EngineOptions options = options_of(model, true);
    options.cache.directory = dir.file("states");
    options.cache.disk_bytes = budget;
    auto engine = engine_with(options, false);
    run(*engine, picture_request(5, 2));
    engine.reset();
    EXPECT_EQ(images_on_disk(options.cache.directory).files, budget > 8000 ? 1u : 0u) << budget;
  }
}

TEST(EngineImages, FeaturesOfEveryMergerAreInTheBudget) {
  const SeeingModel model("qwen3_vl");
  const VisionCase from = golden::read_vision_case("qwen3_vl");
  ASSERT_GT(from.deepstack, 0);
  const auto engine = engine_with(options_of(model), false);
  Request request = golden_request(from, from.runs[0]);
  request.max_tokens = 4;
  uint64_t tokens = 0, bytes = 0;
  for (const RequestImage& image : request.images) tokens += static_cast<uint64_t>(image.image->tokens);
  Collector collector;
  const auto note = [&] { bytes = engine->stats().state_bytes; };
  ASSERT_TRUE(engine->submit(request, when_delivered(2, note, collector.sink(0))).ok());
  collector.wait(0);
  EXPECT_EQ(bytes, bytes_of_small_request(*engine) + tokens * static_cast<uint64_t>(1 + from.deepstack) *
                                                         static_cast<uint64_t>(from.width) * sizeof(float));
}

// The files of a state that the cache has listed may be gone when the request begins.
TEST(EngineImages, AnImageWhoseKeptStateIsGoneIsEncodedAgain) {
  const SeeingModel model("qwen3_5_vision");
  const TempDir dir;
  EngineOptions options = options_of(model, true);
  options.cache.directory = dir.file("states");
  const auto want = run(*engine_with(options, false), picture_request(5, 10));
  for (const bool overlap : {false, true}) {
    const auto engine = engine_with(options, overlap);
    int gone = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(options.cache.directory))
      if (file.is_regular_file() && file.file_size() > 0) {
        std::filesystem::resize_file(file, file.file_size() / 2);
        gone++;
      }
    ASSERT_GE(gone, 2) << "a state and an image";
    const auto got = run_to_end(*engine, picture_request(5, 10));
    EXPECT_EQ(got.tokens, want) << got.last.error;
    EXPECT_EQ(got.last.usage.cached_tokens, 0);
    expect_idle(*engine);
  }
}

// The same weights may see pixels that are normalised in another way.
TEST(EngineImages, StatesOfOtherPixelsAreNotUsed) {
  const SeeingModel model("qwen3_5_vision");
  const TempDir dir;
  EngineOptions options = options_of(model, true);
  options.cache.directory = dir.file("states");
  const auto cached = [&] {
    return run_to_end(*engine_with(options, false), picture_request(5, 10)).last.usage.cached_tokens;
  };
  EXPECT_EQ(cached(), 0);
  EXPECT_GT(cached(), 0);
  const std::string file = model.path() + "/preprocessor_config.json";
  Json config = parse_json(read_file(file, 1 << 20).value()).value();
  config["image_mean"] = {0.4, 0.5, 0.6};
  model.write("preprocessor_config.json", config.dump());
  EXPECT_EQ(cached(), 0);
}

// An encoder alone, and the requests that it works for.
struct SeeingEncoder {
  const SeeingModel model{"qwen3_5_vision"};
  const std::unique_ptr<Device> device = ops::open_device({.threads = 1}).value();
  const std::unique_ptr<Checkpoint> checkpoint = Checkpoint::open(model.path()).value();
  const std::unique_ptr<VisionTower> tower = VisionTower::load(*checkpoint, *device).value();
  const ImageProcessor processor = image_processor_of(*checkpoint).value();
  ImageEncoder encoder{*tower, processor, *device, std::make_unique<ImageStore>(ImageStoreOptions{})};
  std::vector<std::unique_ptr<Sequence>> sequences = {};
};

// Of two requests with one image that come together.
TEST(EngineImages, AnImageIsEncodedOnce) {
  SeeingEncoder seeing;
  ImageEncoder& encoder = seeing.encoder;
  auto& sequences = seeing.sequences;
  const VisionTower* tower = seeing.tower.get();
  for (const RequestId id : {1, 2}) {
    sequences.push_back(std::make_unique<Sequence>(id, picture_request(5), [](const Event&) {}));
    sequences.back()->images = images_of(sequences.back()->request, tower);
    encoder.add(*sequences.back(), 0);
  }
  const auto pieces = [&](RequestId id) {
    int count = 1;
    for (std::optional<RequestId> done; !(done = encoder.work(0)); count++) {
    }
    EXPECT_TRUE(encoder.idle() || encoder.first() != id);
    return count;
  };
  EXPECT_GT(pieces(1), 2) << "its layers one by one";
  EXPECT_EQ(pieces(2), 1) << "nothing is left to encode";
  EXPECT_TRUE(encoder.idle());
}

// An image is kept for its tenant, and one that a kept state covers is not encoded.
TEST(EngineImages, AnImageIsKeptUnderItsSalt) {
  SeeingEncoder seeing;
  ImageEncoder& encoder = seeing.encoder;
  auto& sequences = seeing.sequences;
  const VisionTower* tower = seeing.tower.get();
  const auto is_encoded = [&](const std::string& salt, int covered) {
    Request request = picture_request(5);
    request.cache_salt = salt;
    sequences.push_back(
        std::make_unique<Sequence>(sequences.size() + 1, std::move(request), [](const Event&) {}));
    Sequence& sequence = *sequences.back();
    sequence.images = images_of(sequence.request, tower);
    encoder.add(sequence, covered);
    const bool encoded = !encoder.work(0);
    while (!encoder.idle()) encoder.work(1);
    EXPECT_EQ(sequence.images->images[0].embeddings.empty(), covered > 0);
    return encoded;
  };
  EXPECT_FALSE(is_encoded("mine", 70)) << "its tokens are the prompt's 30th to 69th";
  EXPECT_TRUE(is_encoded("mine", 0));
  EXPECT_FALSE(is_encoded("mine", 0));
  EXPECT_FALSE(is_encoded("mine", 70));
  for (const char* other : {"", "theirs"}) EXPECT_TRUE(is_encoded(other, 0)) << other;
}

// Beside a stream, an image is encoded in parts between its tokens.
TEST(EngineImages, AStreamGoesOnWhileImagesAreEncoded) {
  const SeeingModel model("qwen3_5_vision");
  const auto engine = engine_with(options_of(model), false);
  Collector collector;
  std::atomic<int> streamed{0};
  int before = 0, after = 0;
  const Sink counts = [&, to = collector.sink(0)](const Event& event) {
    streamed += static_cast<int>(event.tokens.size());
    to(event);
  };
  const Sink begins = [&, to = collector.sink(1)](const Event& event) {
    if (event.started) after = streamed;
    to(event);
  };
  const auto come = [&] {
    Request request = request_of(3, 1);
    for (uint32_t i = 0; i < 20; i++) append(request, noise(8, 8, i), 100 + i);
    before = streamed;
    EXPECT_TRUE(engine->submit(request, begins).ok());
  };
  Request stream = request_of(10, 400, 0.9f, 4);
  stream.speculation = kPlainly;
  ASSERT_TRUE(engine->submit(stream, when_delivered(5, come, counts)).ok());
  EXPECT_EQ(collector.wait(1).last.error, "");
  EXPECT_GE(after - before, 20) << "at least a token for each image";
  collector.wait(0);
}

// In Gemma 3 a token of an image sees all of the image, so a state within it would lack rows.
TEST(EngineImages, NoStateIsKeptWithinAnImageThatIsSeenAsAWhole) {
  const SeeingModel model("gemma3_vision");
  const VisionCase from = golden::read_vision_case("gemma3_vision");
  const auto request = [&](int last) {
    Request r = request_of(40, 30, 0.9f, 4);
    r.speculation = kPlainly;
    append(r, golden_image(from, 0), 1);
    const int middle = static_cast<int>(r.prompt.size()) - 9;
    for (int i = 0; i < 20; i++) r.prompt.push_back(10 + i * last % 50);
    r.keep_at = {middle};
    return r;
  };
  const auto plain = engine_with(options_of(model), false),
             engine = engine_with(options_of(model, true), false);
  for (const int last : {3, 3, 5, 7, 7}) {
    const auto got = run_to_end(*engine, request(last));
    EXPECT_EQ(got.tokens, run(*plain, request(last))) << last;
    const int cached = got.last.usage.cached_tokens;
    EXPECT_TRUE(cached <= 40 || cached >= 56) << cached;
  }
  EXPECT_GT(engine->stats().cache->ram_hits, 0u);
}

TEST(EngineImages, TheTowersWeightsAreCountedWhereImagesAreRead) {
  const SeeingModel model("qwen3_5_vision");
  const auto info = [&] { return (*Engine::create(options_of(model)))->info(); };
  const ModelInfo sees = info();
  EXPECT_TRUE(sees.images);
  model.write("tokenizer.json", byte_tokenizer());  // without a token for images
  const ModelInfo blind = info();
  EXPECT_FALSE(blind.images);
  EXPECT_GT(sees.weight_bytes, blind.weight_bytes);
}

// Positions in an image form a grid.
TEST(EngineImages, AreNotReadWithPositionsOfOneAxis) {
  const SeeingModel model("qwen3_5_vision");
  Json config = parse_json(*read_file(model.path() + "/config.json", 1 << 20)).value();
  config["text_config"]["rope_parameters"]["mrope_section"] = {8, 0, 0};
  model.write("config.json", config.dump());
  const auto engine = Engine::create(options_of(model));
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_FALSE((*engine)->info().images);
}

TEST(EngineImages, PromptsThatDoNotHoldTheirImagesAreRefused) {
  const SeeingModel model("qwen3_5_vision");
  const auto engine = engine_with(options_of(model, true), false);
  const auto refused = [&](const char* what, const std::function<void(Request&)>& change) {
    Request request = picture_request(5, 2);
    change(request);
    const auto id = engine->submit(request, [](const Event&) {});
    EXPECT_FALSE(id.ok()) << what;
    if (!id.ok()) {
      EXPECT_NE(id.error().kind, ErrorKind::busy) << what;
    }
  };
  // A state of that image might be kept.
  refused("the ids of another image", [](Request& r) { r.images[0].key = {6, 7}; });
  refused("one other id", [](Request& r) { r.prompt[69]++; });
  refused("it begins elsewhere", [](Request& r) { r.images[0].begin--; });
  refused("it begins behind the prompt", [](Request& r) { r.images[0].begin = 1000; });
  refused("it comes twice", [](Request& r) { r.images.push_back(r.images[0]); });
  refused("it is not there", [](Request& r) { r.images.clear(); });
  refused("no pixels", [](Request& r) { r.images[0].image = nullptr; });
  refused("no tokens", [](Request& r) {
    r = request_of(40, 2);
    r.images.push_back({5, {5, 7}, std::make_shared<const ProcessedImage>()});
  });
  refused("an image as the end", [](Request& r) { r.output.stop_tokens = {r.prompt[40]}; });
  refused("more tokens than patches", [](Request& r) {
    ProcessedImage image = *r.images[0].image;
    image.columns += 2;
    r.images[0].image = std::make_shared<const ProcessedImage>(image);
  });
  refused("it ends behind the prompt", [](Request& r) { r.prompt.resize(60); });
  refused("its ids elsewhere, too", [](Request& r) { r.prompt.push_back(r.prompt[40]); });
  EXPECT_EQ(run(*engine, picture_request(5, 2)).size(), 2u);
}

}  // namespace
}  // namespace anabranch::testing
