// Limits that many small parts of a file reach together, and parts that do not fit each other.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/float8.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"
#include "checkpoint/experts.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/gguf_writer.h"
#include "checkpoint/output_directory.h"
#include "checkpoint/output_file.h"
#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using testing::GgufWriter;
using testing::le;
using testing::raw_bytes;
using testing::SafetensorsWriter;
using testing::TempDir;

#define EXPECT_PART(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::string parse_error(const std::string& bytes) {
  const auto file = parse_gguf(std::as_bytes(std::span(bytes)), "x.gguf");
  return file.ok() ? "" : file.error().message;
}

// Each list is far below the limit of 4 M elements. The first is read, and the second named as one too many.
TEST(GgufBounds, TwoListsTogetherAreBounded) {
  constexpr size_t kEach = 2'200'000;
  GgufWriter one = GgufWriter::llama();
  one.texts("tokenizer.ggml.tokens", std::vector<std::string>(kEach));
  const std::string numbers = le<uint32_t>(0) + le<uint64_t>(kEach) + std::string(kEach, '\1');
  EXPECT_PART(parse_error(GgufWriter(one).key("c", 9, numbers).bytes()),
              "\"c\": an array of 2200000 elements");
  EXPECT_PART(parse_error(GgufWriter(one).key("tokenizer.ggml.merges", 9, numbers).bytes()),
              "merges\": an array of 2200000 elements");
}

// Parts of a split model that are each within the limit of tensors.
TEST(GgufBounds, ManyPartsTogetherAreBounded) {
  constexpr int kEach = 70'000;  // of 131,072
  std::vector<std::string> parts;
  for (const char* name : {"a", "b"}) {
    GgufWriter writer;
    writer.u32("split.no", static_cast<uint32_t>(parts.size())).u32("split.count", 2);
    for (int i = 0; i < kEach; i++) writer.tensor(name + std::to_string(i), {1}, 0, "1234");
    parts.push_back(writer.bytes());
    ASSERT_EQ(parse_error(parts.back()), "");
  }
  std::vector<FileBytes> files;
  for (const std::string& part : parts)
    files.push_back({"part.gguf", std::as_bytes(std::span(part)), nullptr});
  const auto joined = join_gguf(std::move(files));
  ASSERT_FALSE(joined.ok());
  EXPECT_PART(joined.error().message, "tensors is absurd");
}

TEST(GgufBounds, TensorsThatShareBytesAreRefused) {
  const std::string row(128, '\0');
  const auto with_second = [&](const std::vector<uint64_t>& dims, int64_t offset) {
    GgufWriter writer;
    writer.tensor("a", {32}, 0, row).tensor("b", dims, 0, row, offset);
    return parse_error(writer.bytes());
  };
  EXPECT_EQ(with_second({32}, 128), "");
  for (const int64_t offset : {0, 32, 96}) EXPECT_PART(with_second({8}, offset), "overlaps");
  EXPECT_PART(with_second({64}, 128), "truncated") << "it ends beyond the file";
  EXPECT_PART(with_second({40}, 96), "overlaps");
}

TEST(GgufBounds, MoreRotaryDimensionsThanAHeadHas) {
  const auto error_with = [](uint32_t rotary) {
    GgufWriter writer = GgufWriter::llama();  // heads of 16
    writer.u32("llama.rope.dimension_count", rotary);
    const std::string bytes = writer.bytes();
    const auto file = parse_gguf(std::as_bytes(std::span(bytes)), "x.gguf");
    EXPECT_TRUE(file.ok());
    const auto config = read_gguf_config(*file, "x.gguf");
    return config.ok() ? "" : config.error().message;
  };
  EXPECT_EQ(error_with(8), "");
  EXPECT_EQ(error_with(16), "");
  EXPECT_PART(error_with(18), "18 rotary dimensions in heads of 16");
  EXPECT_PART(error_with(32), "32 rotary dimensions in heads of 16");
}

// A shape of the same rank, of more and of less data.
TEST(StoreBounds, TensorsOfAnotherShapeAreRefused) {
  TempDir dir;
  dir.write("config.json", R"({"model_type":"llama"})");
  dir.write("model.safetensors", SafetensorsWriter().f32("w.weight", {2, 3}, {1, 2, 3, 4, 5, 6}).bytes());
  const auto opened = Checkpoint::open(dir.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  Checkpoint& checkpoint = **opened;
  for (const auto& [rows, cols] : {std::pair{2, 4}, {3, 3}, {3, 2}, {1, 6}, {2, 2}, {1, 3}, {1000, 1000}}) {
    EXPECT_FALSE(checkpoint.take("w.weight", {rows, cols}).ok()) << rows << " " << cols;
    EXPECT_FALSE(checkpoint.take_matrix("w.weight", rows, cols).ok()) << rows << " " << cols;
  }
  EXPECT_FALSE(checkpoint.take("w.weight", {6}).ok());
  EXPECT_TRUE(checkpoint.take("w.weight", {2, 3}).ok());
}

std::vector<float> dense_values(const WeightSource& source) {
  std::vector<float> out(static_cast<size_t>(source.rows * source.cols));
  read_values(source, 0, source.rows, out.data());
  return out;
}

// Of experts quantised in two ways each keeps its values, whichever of them comes first.
TEST(ExpertBounds, SymmetricAndOtherOnesGoTogether) {
  const auto expert = [](bool symmetric, float scale) {
    WeightSource source;
    source.rows = 2;
    source.cols = 64;
    source.kind = WeightKind::affine;
    source.bits = 4;
    source.group = 32;
    source.symmetric = symmetric;
    source.zero_point = symmetric ? 8 : 0;
    source.scale_type = ScaleType::f32;
    source.read_codes = [=](int64_t first, int64_t count, uint8_t* codes, float* scales, float* biases) {
      for (int64_t i = 0; i < count * 64; i++) codes[i] = static_cast<uint8_t>((first * 64 + i) % 16);
      for (int64_t g = 0; g < count * 2; g++) {
        scales[g] = scale * static_cast<float>(1 + g);
        if (!symmetric) biases[g] = 3;
      }
    };
    return source;
  };
  for (const bool first : {true, false}) {
    std::vector<float> want;
    for (const bool symmetric : {first, !first})
      for (const float value : dense_values(expert(symmetric, symmetric ? 2.0f : 5.0f)))
        want.push_back(value);
    const WeightSource joined =
        join_rows({expert(first, first ? 2.0f : 5.0f), expert(!first, first ? 5.0f : 2.0f)});
    EXPECT_EQ(joined.rows, 4);
    EXPECT_EQ(dense_values(joined), want) << first;
  }
}

// More rows of blocks than are encoded at a time: each has its own scale.
TEST(Fp8Bounds, LargeMatricesKeepTheScalesOfAllTheirBlocks) {
  constexpr int64_t kRows = 384, kCols = 8192;  // one row of blocks at a time
  TempDir dir;
  std::vector<float> values(kRows * kCols);
  for (int64_t r = 0; r < kRows; r++)
    for (int64_t c = 0; c < kCols; c++)
      values[static_cast<size_t>(r * kCols + c)] = std::pow(10.0f, static_cast<float>(r / 128));
  dir.write("config.json", R"({"model_type":"qwen3"})");
  dir.write("model.safetensors",
            SafetensorsWriter().f32("model.layers.0.mlp.up_proj.weight", {kRows, kCols}, values).bytes());
  ConvertOptions options;
  options.output = dir.file("out");
  options.format = ConvertFormat::fp8;
  const auto report = convert(dir.path(), options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto opened = Checkpoint::open(options.output);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto source = (*opened)->take_matrix("model.layers.0.mlp.up_proj.weight", kRows, kCols);
  ASSERT_TRUE(source.ok()) << source.error().message;
  std::vector<float> row(kCols);
  for (const int64_t r : {0, 127, 128, 255, 256, 383}) {
    read_values(*source, r, 1, row.data());
    const float want = std::pow(10.0f, static_cast<float>(r / 128));
    for (const int64_t c : {int64_t{0}, int64_t{5000}, kCols - 1})
      EXPECT_NEAR(row[static_cast<size_t>(c)], want, want * 1e-5f) << r << " " << c;
  }
}

// What --force may replace, and what it may not.
TEST(OutputBounds, OnlyModelsAreReplaced) {
  TempDir dir;
  const auto refusal = [](const auto& made) { return made.ok() ? "" : made.error().message; };
  const auto directory = [&](const std::string& name) {
    return refusal(OutputDirectory::make(dir.file(name), dir.file("source"), true));
  };
  fs::create_directories(dir.file("source"));
  fs::create_directories(dir.file("model/notes"));
  for (const char* name : {"model/config.json", "model/model.safetensors"}) dir.write(name, "x");
  EXPECT_PART(directory("model"), "not a model directory") << "a folder in it";
  fs::remove(dir.file("model/notes"));
  EXPECT_EQ(directory("model"), "");
  fs::create_symlink("elsewhere", dir.file("model/link"));
  EXPECT_PART(directory("model"), "not a model directory") << "a link to nowhere";
  fs::remove(dir.file("model/link"));
  fs::remove(dir.file("model/config.json"));
  EXPECT_PART(directory("model"), "not a model directory") << "weights alone";
  dir.write("model/config.json", "x");
  fs::create_directory_symlink(dir.file("model"), dir.file("link"));
  EXPECT_PART(directory("link"), "not a model directory");
  EXPECT_PART(refusal(OutputDirectory::make(dir.path(), dir.file("source"), true)),
              "holds the source itself");
  EXPECT_PART(refusal(OutputDirectory::make(dir.file("source/"), dir.file("source"), true)),
              "holds the source itself");
  const auto file = [&](const std::string& name) {
    return refusal(OutputFile::make(dir.file(name), dir.file("source"), "GGUF", true));
  };
  dir.write("good.gguf", "GGUF and more");
  dir.write("short.gguf", "GGU");
  dir.write("letter.gguf", "dear GGUF");
  EXPECT_EQ(file("good.gguf"), "");
  EXPECT_EQ(file("fresh.gguf"), "");
  EXPECT_PART(file("short.gguf"), "is not a GGUF file");
  EXPECT_PART(file("letter.gguf"), "is not a GGUF file");
  fs::create_symlink(dir.file("good.gguf"), dir.file("link.gguf"));
  EXPECT_PART(file("link.gguf"), "is not a GGUF file");
  EXPECT_PART(file("model"), "is a directory");
  // Of a split model no part is replaced.
  for (const char* part : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) dir.write(part, "GGUF");
  for (const char* part : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"})
    EXPECT_PART(refusal(OutputFile::make(dir.file(part), dir.file("m-00001-of-00002.gguf"), "GGUF", true)),
                "is the source itself");
  EXPECT_EQ(refusal(OutputFile::make(dir.file("m-00001-of-00002.gguf"), dir.file("good.gguf"), "GGUF", true)),
            "");
  // Nothing half-made is left.
  for (const auto& entry : fs::directory_iterator(dir.path()))
    EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace anabranch
