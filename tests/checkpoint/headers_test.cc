// Models of whose weights only the headers are there, with zeros behind them.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_writer.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_model.h"
#include "checkpoint/safetensors_writer.h"
#include "temp_dir.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using testing::GgufWriter;
using testing::raw_bytes;
using testing::SafetensorsWriter;

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
  const fs::path folder = anabranch::testing::temp_path("headers_only");
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

// A safetensors file in memory. Whoever touches its data from byte `first` on ends the program.
class GuardedFile {
 public:
  GuardedFile(const std::string& file, uint64_t first) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    uint64_t header;
    std::memcpy(&header, file.data(), 8);
    const size_t open = (8 + header + first + page - 1) / page * page;
    const std::string padding(open - (8 + header + first), ' ');
    const std::string padded =
        testing::with_header(file.substr(8, header) + padding, file.substr(8 + header));
    size_ = padded.size();
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(memory_, padded.data(), size_);
    mprotect(static_cast<char*>(memory_) + open, size_ - open, PROT_NONE);
  }
  ~GuardedFile() { munmap(memory_, size_); }
  GuardedFile(const GuardedFile&) = delete;
  GuardedFile& operator=(const GuardedFile&) = delete;

  Result<std::vector<Entry>> read(const char* config, Extent extent) const {
    const std::span bytes(static_cast<const std::byte*>(memory_), size_);
    return read_safetensors(parse_json(config).value(), "config.json", {{"f", bytes, {}, {}, extent}});
  }

 private:
  void* memory_;
  size_t size_;
};

// Zero points and orders of inputs of a whole model are long.
TEST(Headers, AreReadWithoutValues) {
  SafetensorsWriter writer;
  writer.add("m.qweight", "I32", {8, 8}, std::string(256, 'x'))
      .add("m.qzeros", "I32", {2, 1}, std::string(8, 'x'))
      .add("m.scales", "F16", {2, 8}, std::string(32, 'x'))
      .add("m.g_idx", "I32", {64}, std::string(256, 'x'))
      .add("n.qweight", "I32", {64, 1}, std::string(256, 'x'))
      .add("n.qzeros", "I32", {2, 1}, std::string(8, 'x'))
      .add("n.scales", "F16", {2, 8}, std::string(32, 'x'));
  const GuardedFile file(writer.bytes(), 0);
  const char* config = R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32}})";
  const auto entries = file.read(config, Extent::headers);
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].info.type, "gptq-4/32");
  EXPECT_EQ((*entries)[1].info.type, "awq-4/32");
  EXPECT_DEATH((void)file.read(config, Extent::whole), "");  // by a signal, or by a sanitizer that caught it
}

// The factors of bitsandbytes' blocks are left for the time when weights are loaded.
TEST(Headers, FactorsOfBlocksAreReadLast) {
  const std::string state =
      R"({"quant_type":"nf4","blocksize":64,"nested_blocksize":256,"dtype":"bfloat16","shape":[2,64]})";
  for (const bool nested : {false, true}) {
    SafetensorsWriter writer;
    writer.f32("m.weight.quant_map", {16}, std::vector<float>(16, 1))
        .f32("m.weight.nested_quant_map", {256}, std::vector<float>(256, 1))
        .add("m.weight.quant_state.bitsandbytes__nf4", "U8", {static_cast<int64_t>(state.size())}, state);
    const uint64_t first = 64 + 1024 + state.size();
    writer.add("m.weight", "U8", {64, 1}, std::string(64, 'x'));
    nested ? writer.add("m.weight.absmax", "U8", {2}, "xx").f32("m.weight.nested_absmax", {1}, {1})
           : writer.f32("m.weight.absmax", {2}, {1, 1});
    const GuardedFile file(writer.bytes(), first);
    const auto entries =
        file.read(R"({"quantization_config":{"quant_method":"bitsandbytes"}})", Extent::whole);
    ASSERT_TRUE(entries.ok()) << entries.error().message;
    EXPECT_EQ(entries->front().info.type, "bnb-nf4");
  }
}

// A packed matrix states its shape among the values.
TEST(Headers, ShapesThatAreNotThere) {
  SafetensorsWriter writer;
  writer.add("m.weight_packed", "I32", {8, 16}, std::string(512, '\0'))
      .add("m.weight_scale", "F16", {8, 1}, std::string(16, '\0'))
      .add("m.weight_shape", "I64", {2}, std::string(16, '\0'));
  const std::string bytes = writer.bytes();
  for (const auto& [bits, cols] : {std::pair{4, 128}, {8, 64}}) {
    const Json config =
        parse_json(
            fmt::format(R"({{"quantization_config":{{"quant_method":"compressed-tensors","config_groups":
                               {{"group_0":{{"weights":{{"num_bits":{}}}}}}}}}}})",
                        bits))
            .value();
    const auto entries =
        read_safetensors(config, "config.json", {{"f", bytes_of(bytes), {}, {}, Extent::headers}});
    ASSERT_TRUE(entries.ok()) << entries.error().message;
    EXPECT_EQ(entries->front().info.shape, (std::vector<int64_t>{8, cols}));
    EXPECT_FALSE(read_safetensors(config, "config.json", {{"f", bytes_of(bytes), {}}}).ok());
  }
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
