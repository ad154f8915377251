// The same models in the layouts of other programs (tools/make_gguf_layouts.py): Ollama's names and keys, and
// split files. A layout is read right if nothing tells it from its twin.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/gguf_writer.h"
#include "temp_dir.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using testing::GgufWriter;
using testing::le;

const fs::path kLayouts = ANABRANCH_SOURCE_DIR "/tests/checkpoint/data/layouts";
const fs::path kModels = ANABRANCH_SOURCE_DIR "/tests/models/data";

std::unique_ptr<Checkpoint> open_ok(const fs::path& path) {
  auto checkpoint = Checkpoint::open(path.string());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  return checkpoint.ok() ? std::move(*checkpoint) : nullptr;
}

std::string error_of(const fs::path& path) {
  const auto checkpoint = Checkpoint::open(path.string());
  return checkpoint.ok() ? "" : checkpoint.error().message;
}

// A tensor's values as a model applies them: norms of either convention alike.
std::vector<float> values_of(Checkpoint& checkpoint, const TensorInfo& info) {
  const auto values = checkpoint.take(info.name, info.shape);
  EXPECT_TRUE(values.ok()) << values.error().message;
  std::vector<float> out(values->data<float>(), values->data<float>() + values->size());
  const bool shifted = info.name.starts_with("mtp.") && info.name.find("norm") != std::string::npos &&
                       info.norms == NormConvention::offset;
  for (float& value : out) value += shifted ? 1.0f : 0.0f;
  return out;
}

void expect_same_tensors(Checkpoint& layout, Checkpoint& twin) {
  ASSERT_EQ(layout.tensors().size(), twin.tensors().size());
  for (const TensorInfo& info : twin.tensors()) {
    const auto other = layout.find(info.name);
    ASSERT_TRUE(other) << info.name;
    EXPECT_EQ(other->shape, info.shape) << info.name;
    const auto got = values_of(layout, *other), expected = values_of(twin, info);
    ASSERT_EQ(got.size(), expected.size()) << info.name;
    for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], expected[i], 2e-7f) << info.name;
  }
  EXPECT_TRUE(layout.finish().ok());
}

struct Twins {
  const char *layout, *twin;
  size_t left_out;
};

class Layout : public ::testing::TestWithParam<Twins> {};

TEST_P(Layout, NothingTellsItFromItsTwin) {
  const auto layout = open_ok(kLayouts / GetParam().layout);
  const auto twin = open_ok(kModels / GetParam().twin / "model.gguf");
  ASSERT_TRUE(layout && twin);
  Json config = layout->config(), expected = twin->config();
  if (std::string(GetParam().twin) == "gemma3_gguf")  // what tells Ollama that the rope is stretched
    config["max_position_embeddings"] = expected["max_position_embeddings"];
  for (const auto& [key, value] : expected.items()) {
    if (key == "rms_norm_eps")
      EXPECT_FLOAT_EQ(config[key].get<float>(), value.get<float>());
    else
      EXPECT_EQ(config[key], value) << key;
  }
  EXPECT_EQ(config.size(), expected.size()) << config.dump();
  expect_same_tensors(*layout, *twin);
  EXPECT_EQ(layout->left_out(), GetParam().left_out);
}

INSTANTIATE_TEST_SUITE_P(All, Layout,
                         ::testing::Values(Twins{"qwen35_ollama.gguf", "qwen35_gguf", 57},
                                           Twins{"qwen3_vl_ollama.gguf", "qwen3_vl", 85},
                                           Twins{"qwen3_next_ollama.gguf", "qwen3_next_gguf", 0},
                                           Twins{"ministral3_ollama.gguf", "ministral3_gguf", 2},
                                           Twins{"gemma3_ollama.gguf", "gemma3_gguf", 39},
                                           Twins{"gemma4_moe_ollama.gguf", "gemma4_moe_gguf", 4},
                                           Twins{"qwen2-00001-of-00003.gguf", "qwen2_gguf", 0},
                                           Twins{"qwen2-00003-of-00003.gguf", "qwen2_gguf", 0}),
                         [](const auto& info) {
                           std::string name = info.param.layout;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

// The tower that a model's file holds is that of the checkpoint it was made of.
TEST(GgufLayouts, TowersWithinTheFile) {
  struct Tower {
    const char *layout, *twin;
  };
  for (const auto& [file, twin] :
       {Tower{"qwen35_ollama.gguf", "qwen3_5_vision"}, Tower{"qwen3_vl_ollama.gguf", "qwen3_vl"},
        Tower{"gemma3_ollama.gguf", "gemma3_vision"}}) {
    const auto layout = open_ok(kLayouts / file), mmproj = open_ok(kModels / twin / "model");
    ASSERT_TRUE(layout && mmproj && layout->vision()) << file;
    Checkpoint &inner = *layout->vision(), &outer = *mmproj->vision();
    const Json& vision = outer.config()["vision_config"];
    for (const auto& [key, value] : inner.config()["vision_config"].items())
      if (vision.contains(key) && !value.is_number_float()) {
        EXPECT_EQ(value, vision[key]) << key;
      }
    EXPECT_EQ(inner.config()["model_type"], outer.config()["model_type"]);
    for (const TensorInfo& info : outer.tensors()) {
      const auto other = inner.find(info.name);
      ASSERT_TRUE(other) << info.name;
      const auto got = inner.take(info.name, other->shape), expected = outer.take(info.name, info.shape);
      ASSERT_TRUE(got.ok() && expected.ok());
      ASSERT_EQ(got->size(), expected->size()) << info.name;
      const bool offset = info.name.ends_with("soft_emb_norm.weight") && info.norms == NormConvention::offset;
      for (int64_t i = 0; i < got->size(); i++)
        ASSERT_NEAR(got->data<float>()[i], expected->data<float>()[i] + (offset ? 1 : 0), 2e-3f) << info.name;
    }
  }
}

// ---------------------------------------------------------------- split files

class Split : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    dir_ = anabranch::testing::temp_path(std::string("gguf_split_") + info->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    for (int part = 1; part <= 3; part++) fs::copy_file(kLayouts / name(part), dir_ / name(part));
  }
  void TearDown() override { fs::remove_all(dir_); }

  static std::string name(int part, int count = 3) {
    return fmt::format("qwen2-{:05}-of-{:05}.gguf", part, count);
  }
  void expect_error(const std::string& file, const std::string& part) const {
    const std::string message = error_of(dir_ / file);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  // A part without tensors of its own.
  void write(int part, int number, int count, int tensors) const {
    GgufWriter w;
    if (number >= 0) w.u32("split.no", static_cast<uint32_t>(number));
    w.u32("split.count", static_cast<uint32_t>(count))
        .u32("split.tensors.count", static_cast<uint32_t>(tensors));
    std::ofstream(dir_ / name(part), std::ios::binary) << w.bytes();
  }

  fs::path dir_;
};

TEST_F(Split, EveryPartMustBeThere) {
  EXPECT_EQ(error_of(dir_ / name(1)), "");
  EXPECT_EQ(open_ok(dir_ / name(2))->name(), "qwen2");
  fs::remove(dir_ / name(2));
  for (const int part : {1, 3}) {
    expect_error(name(part), "part 2 of 3 is missing");
    expect_error(name(part), (dir_ / name(2)).string());
  }
}

TEST_F(Split, PartsMustBeWhatTheirNamesSay) {
  fs::rename(dir_ / name(1), dir_ / "model.gguf");
  expect_error("model.gguf", "its name must end in -00001-of-00003.gguf");
  fs::rename(dir_ / "model.gguf", dir_ / name(1));
  fs::copy_file(dir_ / name(3), dir_ / name(2), fs::copy_options::overwrite_existing);
  expect_error(name(1), "it is part 3 of 3, but part 2 of 3 is needed");
  expect_error(name(2), "its name must end in -00003-of-00003.gguf");
  write(2, 1, 4, 9);
  expect_error(name(1), "it is part 2 of 4, but part 2 of 3 is needed");
  write(2, -1, 0, 9);
  expect_error(name(1), "it is part 1 of 1, but part 2 of 3 is needed");
}

TEST_F(Split, PartsMustBeOfOneModel) {
  write(2, 1, 3, 27);
  expect_error(name(1), "its 3 parts hold");
  GgufWriter twice;
  twice.u32("split.no", 1).u32("split.count", 3).u32("split.tensors.count", 27);
  for (int i = 0; i < 10; i++)
    twice.tensor(i == 0 ? "output_norm.weight" : fmt::format("x{}", i), {32}, 0, std::string(128, '\0'));
  std::ofstream(dir_ / name(2), std::ios::binary) << twice.bytes();
  const std::string message = error_of(dir_ / name(1));
  EXPECT_NE(message.find("\"output_norm.weight\" is both in"), std::string::npos) << message;
}

TEST_F(Split, AbsurdCounts) {
  for (const int count : {5000, 65535}) {
    write(1, 0, count, 3);
    fs::rename(dir_ / name(1), dir_ / name(1, count));
    expect_error(name(1, count), "at most 4096 are read");
    fs::remove(dir_ / name(1, count));
  }
}

}  // namespace
}  // namespace anabranch
