// Models of whose weights only the headers are there, with zeros behind them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_writer.h"
#include "checkpoint/safetensors.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using testing::GgufWriter;

const std::string kSource = ANABRANCH_SOURCE_DIR;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The file with zeros for all that follows its header.
std::string header_only(const std::string& path, const std::string& name) {
  const std::string whole = read_file(path, 1 << 26).value();
  const uint64_t header = path.ends_with(".gguf") ? gguf_header_bytes(bytes_of(whole))
                                                  : safetensors_header_bytes(bytes_of(whole));
  EXPECT_GT(header, 0u);
  EXPECT_LT(header, whole.size());
  const fs::path folder = fs::path(::testing::TempDir()) / "headers_only";
  fs::create_directories(folder);
  const std::string copy = (folder / name).string();
  std::ofstream(copy) << whole.substr(0, header) << std::string(whole.size() - header, '\0');
  return copy;
}

void expect_same_tensors(const Checkpoint& a, const Checkpoint& b) {
  const auto left = a.tensors(), right = b.tensors();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); i++) {
    EXPECT_EQ(left[i].name, right[i].name);
    EXPECT_EQ(left[i].type, right[i].type);
    EXPECT_EQ(left[i].shape, right[i].shape);
    EXPECT_EQ(left[i].bytes, right[i].bytes);
  }
}

TEST(Headers, TellTheSameAsTheFile) {
  for (const char* name : {"tests/checkpoint/data/llama.gguf", "tests/checkpoint/data/qwen35.gguf",
                           "tests/models/data/llama3_rope_gguf/model.gguf"}) {
    const std::string path = kSource + "/" + name;
    const auto whole = Checkpoint::open(path);
    const auto headers = Checkpoint::open(header_only(path, "model.gguf"), Extent::headers);
    ASSERT_TRUE(whole.ok() && headers.ok()) << name << (headers.ok() ? "" : headers.error().message);
    expect_same_tensors(**whole, **headers);
    EXPECT_EQ((*whole)->config()["model_type"], (*headers)->config()["model_type"]);
    EXPECT_EQ((*whole)->gguf_metadata(), (*headers)->gguf_metadata());
  }
}

// Without Extent::headers the values are judged.
TEST(Headers, AreNoWholeFile) {
  for (const char* name : {"checkpoint/data/qwen35.gguf", "models/data/llama3_rope_gguf/model.gguf"})
    EXPECT_FALSE(Checkpoint::open(header_only(kSource + "/tests/" + name, "m.gguf")).ok()) << name;
}

TEST(Headers, OfGgufAreAskedForUntilTheyEnd) {
  const std::string whole = GgufWriter::llama().tensor("t", {32}, 8, std::string(34, '\1')).bytes();
  const uint64_t header = gguf_header_bytes(bytes_of(whole));
  ASSERT_GT(header, 100u);
  for (uint64_t n = 24; n < header; n++) ASSERT_GT(gguf_header_bytes(bytes_of(whole.substr(0, n))), n) << n;
  for (uint64_t n = header; n <= whole.size(); n++)
    ASSERT_EQ(gguf_header_bytes(bytes_of(whole.substr(0, n))), header) << n;
}

TEST(Headers, ThatCannotBeReadAreTakenAsTheyAre) {
  EXPECT_GT(gguf_header_bytes(bytes_of("")), 0u);
  EXPECT_EQ(gguf_header_bytes(bytes_of("<html>no such page</html>")), 0u);
  const std::string big_endian("GGUF\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1", 24);
  EXPECT_EQ(gguf_header_bytes(bytes_of(big_endian)), big_endian.size());
  const std::string unknown = GgufWriter::llama().tensor("t", {32}, 999, std::string(34, '\1')).bytes();
  EXPECT_LE(gguf_header_bytes(bytes_of(unknown)), unknown.size());
  EXPECT_GT(gguf_header_bytes(bytes_of(unknown)), 0u);
}

TEST(Headers, OfSafetensorsSayTheirLength) {
  const std::string whole("\x02\0\0\0\0\0\0\0{}abc", 13);
  EXPECT_EQ(safetensors_header_bytes(bytes_of(whole.substr(0, 3))), 8u);
  EXPECT_EQ(safetensors_header_bytes(bytes_of(whole.substr(0, 8))), 10u);
  EXPECT_EQ(safetensors_header_bytes(bytes_of(whole)), 10u);
  EXPECT_EQ(safetensors_header_bytes(bytes_of("<html>no such page")), 0u);
}

}  // namespace
}  // namespace anabranch
