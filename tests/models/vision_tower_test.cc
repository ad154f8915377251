// Vision towers against Hugging Face Transformers in fp32: files of every format, several shapes of pictures,
// and any way to cut the work.
#include "models/vision_tower.h"

#include "checkpoint/gguf_vision.h"
#include "checkpoint/safetensors_writer.h"
#include "models/vision_golden.h"
#include "ops/open.h"
#include "ops/testing.h"
#include "temp_dir.h"

namespace anabranch {
namespace {

using namespace golden;
namespace fs = std::filesystem;

const std::string kCases[] = {"qwen3_5_vision", "qwen3_5_vision_72", "qwen3_vl", "gemma3_vision"};

// The errors of features whose standard deviation is 0.2 to 0.6: fp32 in another order; activations rounded
// to 8 bits or bf16, and keys and values in f16.
constexpr double kTolerance = 1e-5, kRoughTolerance = 4e-2;

struct Loaded {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<VisionTower> tower;
  ImageProcessor processor;
};
Loaded load(const fs::path& path, Device& device) {
  Loaded out;
  auto checkpoint = Checkpoint::open(path.string());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  out.checkpoint = std::move(*checkpoint);
  EXPECT_TRUE(VisionTower::present(*out.checkpoint));
  auto tower = VisionTower::load(*out.checkpoint, device);
  EXPECT_TRUE(tower.ok()) << tower.error().message;
  out.tower = std::move(*tower);
  auto processor = image_processor_of(*out.checkpoint);
  EXPECT_TRUE(processor.ok()) << processor.error().message;
  out.processor = *processor;
  return out;
}

Tensor encode(const Loaded& loaded, const VisionImage& image, double seconds = 1e9) {
  const auto encoding = loaded.tower->begin(image.image, loaded.processor);
  while (!encoding->step(seconds)) {
  }
  return to_host(encoding->result());
}

void expect_features(const Tensor& y, const std::vector<float>& wanted, double tolerance,
                     const std::string& what) {
  ASSERT_EQ(static_cast<size_t>(y.size()), wanted.size()) << what;
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); i++)
    worst = std::max(worst, static_cast<double>(std::abs(y.data<float>()[i] - wanted[i])));
  EXPECT_LT(worst, tolerance) << what;
}

class Vision : public ::testing::TestWithParam<std::string> {
 protected:
  VisionCase golden_ = read_vision_case(GetParam());
};

TEST_P(Vision, FeaturesEqualTransformers) {
  for (Device* device : {&ops::cpu_device(0, true), &ops::reference_device()}) {
    const Loaded loaded = load(golden_.directory / "model", *device);
    for (const VisionImage& image : golden_.images)
      expect_features(encode(loaded, image), image.features, kTolerance,
                      fmt::format("{} x {} on {}", image.image.width, image.image.height, device->name()));
  }
}

TEST_P(Vision, RoundedActivationsAreClose) {
  const Loaded loaded = load(golden_.directory / "model", ops::cpu_device());
  for (const VisionImage& image : golden_.images)
    expect_features(encode(loaded, image), image.features, kRoughTolerance, "8 bits");
}

TEST_P(Vision, SameBitsHoweverTheWorkIsCut) {
  for (const bool precise : {false, true}) {
    const Loaded one = load(golden_.directory / "model", ops::cpu_device(1, precise)),
                 two = load(golden_.directory / "model", ops::cpu_device(2, precise));
    for (const VisionImage& image : golden_.images) {
      const Tensor whole = encode(one, image);
      ops::expect_same_bits(encode(one, image, 0), whole, "piece by piece");
      ops::expect_same_bits(encode(two, image, 0), whole, "two threads");
    }
  }
}

TEST_P(Vision, SeveralPicturesAtATime) {
  const Loaded loaded = load(golden_.directory / "model", ops::cpu_device());
  std::vector<std::unique_ptr<VisionTower::Encoding>> work;
  for (const VisionImage& image : golden_.images)
    work.push_back(loaded.tower->begin(image.image, loaded.processor));
  for (bool all = false; !all;) {
    all = true;
    for (const auto& encoding : work) all &= encoding->step(0);
  }
  for (size_t i = 0; i < work.size(); i++)
    ops::expect_same_bits(to_host(work[i]->result()), encode(loaded, golden_.images[i]), "among others");
}

TEST_P(Vision, OtherFormats) {
  if (!fs::exists(golden_.directory / "mlx")) GTEST_SKIP() << "this case has none";
  Device& device = ops::cpu_device(0, true);
  const Loaded mlx = load(golden_.directory / "mlx", device), mlxq = load(golden_.directory / "mlxq", device);
  for (const VisionImage& image : golden_.images) {
    expect_features(encode(mlx, image), image.features, kTolerance, "MLX");
    expect_features(encode(mlxq, image), image.features_mlxq, kTolerance, "MLX, quantised");
  }
}

// A text model and, beside it, the tower of llama.cpp.
TEST_P(Vision, MmprojBesideAGguf) {
  if (!fs::exists(golden_.directory / "mmproj.gguf")) GTEST_SKIP() << "this case has none";
  const bool gemma = GetParam().starts_with("gemma3");
  const fs::path data = golden_.directory.parent_path(),
                 folder = anabranch::testing::temp_path("mmproj_" + GetParam());
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::path text = golden_.directory / "model.gguf";
  if (!fs::exists(text)) text = data / (gemma ? "gemma3_gguf" : "qwen35_gguf") / "model.gguf";
  fs::copy_file(text, folder / "model.gguf");
  EXPECT_FALSE(VisionTower::present(**Checkpoint::open((folder / "model.gguf").string())));
  fs::copy_file(golden_.directory / "mmproj.gguf", folder / "mmproj-F16.gguf");
  if (gemma) {  // this text model is narrower
    const auto checkpoint = Checkpoint::open((folder / "model.gguf").string()).value();
    EXPECT_EQ(VisionTower::load(*checkpoint, ops::cpu_device()).error().kind, ErrorKind::invalid);
    return;
  }
  const Loaded loaded = load(folder / "model.gguf", ops::cpu_device(0, true));
  for (const VisionImage& image : golden_.images)
    expect_features(encode(loaded, image), image.features, kTolerance, "mmproj");
}

// The same tower within the file of a text model, as Ollama has it.
TEST(VisionInTheModelsFile, FeaturesEqualTransformers) {
  const fs::path layouts = ANABRANCH_SOURCE_DIR "/tests/checkpoint/data/layouts";
  for (const auto& [name, file] :
       {std::pair{"qwen3_5_vision", "qwen35_ollama.gguf"}, {"qwen3_vl", "qwen3_vl_ollama.gguf"}}) {
    const VisionCase golden = read_vision_case(name);
    const Loaded loaded = load(layouts / file, ops::cpu_device(0, true));
    for (const VisionImage& image : golden.images)
      expect_features(encode(loaded, image), image.features, kTolerance, file);
  }
}

// Pulled models: a repository has its tower at the top, and some of its models in folders.
TEST(FindMmproj, BesideTheModelOrAtTheTopOfASnapshot) {
  const fs::path root = anabranch::testing::temp_path("find_mmproj"),
                 snapshot = root / "models--o--n/snapshots" / std::string(40, 'c');
  fs::remove_all(root);
  fs::create_directories(snapshot / "BF16");
  fs::create_directories(root / "plain/BF16");
  for (const fs::path& folder : {snapshot, root / "plain"}) std::ofstream(folder / "MMProj-F16.gguf") << "x";
  const auto found = [](const fs::path& model) { return find_mmproj(model.string()).value_or(""); };
  EXPECT_EQ(found(snapshot / "m.gguf"), snapshot / "MMProj-F16.gguf");
  EXPECT_EQ(found(snapshot / "BF16/m.gguf"), snapshot / "MMProj-F16.gguf");
  EXPECT_EQ(found(root / "plain/m.gguf"), root / "plain/MMProj-F16.gguf");
  EXPECT_EQ(found(root / "plain/BF16/m.gguf"), "");
  EXPECT_EQ(found(snapshot / "MMProj-F16.gguf"), "");
  std::ofstream(snapshot / "BF16/mmproj-F32.gguf") << "x";
  EXPECT_EQ(found(snapshot / "BF16/m.gguf"), snapshot / "BF16/mmproj-F32.gguf");
}

// "mmproj" may stand anywhere in the name; of several models in a folder each has its own.
TEST(FindMmproj, TheOneThatIsNamedAsTheModel) {
  const fs::path root = anabranch::testing::temp_path("find_mmproj_of_several");
  fs::remove_all(root);
  fs::create_directories(root);
  for (const char* name : {"a.Q4_0.gguf", "b-small-Q8_0.gguf", "a.mmproj-f16.gguf", "mmproj-b-small-F16.gguf",
                           "b-small-MMPROJ-Q8_0.gguf"})
    std::ofstream(root / name) << "x";
  EXPECT_EQ(find_mmproj(root / "a.Q4_0.gguf"), root / "a.mmproj-f16.gguf");
  EXPECT_EQ(find_mmproj(root / "b-small-Q8_0.gguf"), root / "b-small-MMPROJ-Q8_0.gguf");
  EXPECT_EQ(find_mmproj(root / "other.gguf"), root / "a.mmproj-f16.gguf");
  EXPECT_EQ(find_mmproj(root / "b-small-MMPROJ-Q8_0.gguf"), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Vision, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param; });

class VisionCuda : public ::testing::TestWithParam<std::string> {};
TEST_P(VisionCuda, CloseToTransformersAndTheSameBitsHoweverCut) {
  if (const auto why = ops::cuda_unsupported(); !why.empty()) GTEST_SKIP() << why;
  const auto device = ops::open_device({.name = "cuda"}).value();
  const VisionCase golden = read_vision_case(GetParam());
  const Loaded loaded = load(golden.directory / "model", *device);
  for (const VisionImage& image : golden.images) {
    const Tensor whole = encode(loaded, image);
    expect_features(whole, image.features, kRoughTolerance, "CUDA");
    ops::expect_same_bits(encode(loaded, image, 0), whole, "piece by piece");
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, VisionCuda, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param; });

// config.json with values that nobody checked: an error, or a tower that works.
TEST_P(Vision, HostileConfigs) {
  const fs::path from = golden_.directory / "model";
  const testing::TempDir dir;
  for (const char* name : {"model.safetensors", "preprocessor_config.json"})
    fs::create_symlink(from / name, fs::path(dir.path()) / name);
  const Json good = parse_json(read_file((from / "config.json").string(), 1 << 20).value()).value();
  const Json values[] = {
      nullptr,         -1, 0, 1, 3, 7, 1 << 30, int64_t{1} << 40, 2.5, "x", Json::array(), Json::object(),
      Json::array({1})};
  int errors = 0;
  const auto play = [&](const Json& config, const std::string& what) {
    SCOPED_TRACE(what);
    dir.write("config.json", dump_json(config));
    const auto checkpoint = Checkpoint::open(dir.path());
    ASSERT_TRUE(checkpoint.ok());
    const auto tower = VisionTower::load(**checkpoint, ops::cpu_device());
    errors += !tower.ok();
    if (!tower.ok()) {
      EXPECT_NE(tower.error().kind, ErrorKind::internal);
      return;
    }
    const auto processor = image_processor_of(**checkpoint);
    if (!processor.ok()) return;
    const auto encoding = (*tower)->begin(golden_.images[0].image, *processor);
    while (!encoding->step(1)) {
    }
  };
  for (const auto& [key, value] : good["vision_config"].items())
    for (const Json& other : values) {
      Json config = good;
      config["vision_config"][key] = other;
      play(config, key + " " + dump_json(other));
    }
  EXPECT_GT(errors, 60);
  for (const char* key : {"vision_config", "text_config", "mm_tokens_per_image"})
    for (const Json& other : values) {
      Json config = good;
      config[key] = other;
      play(config, key + (" " + dump_json(other)));
    }
}

// What is damaged makes no text model unusable.
TEST(VisionFiles, RopesOfAnotherType) {
  const fs::path from = read_vision_case("qwen3_5_vision").directory / "model";
  const testing::TempDir dir;
  for (const char* name : {"model.safetensors", "preprocessor_config.json"})
    fs::create_symlink(from / name, fs::path(dir.path()) / name);
  Json config = parse_json(read_file((from / "config.json").string(), 1 << 20).value()).value();
  const auto error_of = [&](const Json& rope) {
    config["vision_config"]["rope_parameters"] = rope;
    dir.write("config.json", dump_json(config));
    const auto checkpoint = Checkpoint::open(dir.path()).value();
    const auto tower = VisionTower::load(*checkpoint, ops::cpu_device());
    return tower.ok() ? "" : tower.error().message;
  };
  for (const char* type : {"axial", "default"}) EXPECT_EQ(error_of({{"rope_type", type}}), "");
  EXPECT_NE(error_of({{"rope_type", "linear"}, {"factor", 2.0}}).find("\"rope_type\" is linear"),
            std::string::npos);
}

TEST(VisionFiles, DamagedMmproj) {
  const fs::path data = ANABRANCH_SOURCE_DIR "/tests/models/data";
  const testing::TempDir dir;
  fs::create_symlink(data / "qwen35_gguf" / "model.gguf", fs::path(dir.path()) / "model.gguf");
  const std::string whole = read_file((data / "qwen3_5_vision" / "mmproj.gguf").string(), 1 << 24).value();
  for (size_t size = 0; size < whole.size(); size += size < 4000 ? 37 : 9973) {
    dir.write("mmproj.gguf", whole.substr(0, size));
    const auto checkpoint = Checkpoint::open(dir.file("model.gguf"));
    ASSERT_TRUE(checkpoint.ok()) << size;
    EXPECT_FALSE(VisionTower::present(**checkpoint)) << size;
  }
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                          "patch_size", "image_size", "spatial_merge_size", "projection_dim"}) {
    for (const uint32_t value : {0u, 5u, 1u << 29}) {
      std::string changed = whole;
      const size_t at = changed.find(std::string("clip.vision.") + key);
      ASSERT_NE(at, std::string::npos);
      std::memcpy(changed.data() + at + 12 + std::strlen(key) + 4, &value, 4);
      dir.write("mmproj.gguf", changed);
      const auto checkpoint = Checkpoint::open(dir.file("model.gguf"));
      ASSERT_TRUE(checkpoint.ok()) << key;
      if (VisionTower::present(**checkpoint)) {
        EXPECT_FALSE(VisionTower::load(**checkpoint, ops::cpu_device()).ok()) << key << " " << value;
      }
    }
  }
}

TEST(VisionFiles, ATextModelHasNone) {
  const auto checkpoint =
      Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/qwen35_nested_untied_grouped/model").value();
  EXPECT_FALSE(VisionTower::present(*checkpoint));
  EXPECT_EQ(VisionTower::load(*checkpoint, ops::cpu_device()).error().kind, ErrorKind::not_found);
  EXPECT_EQ(image_processor_of(*checkpoint).error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace anabranch
