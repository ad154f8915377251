// Metadata of GGUF files, and the config.json that they mean.
#pragma once

#include <gtest/gtest.h>

#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_writer.h"

namespace anabranch::testing {

// A file of `arch` with 2 layers, width 64 and 2 heads of 32.
class Writer : public GgufWriter {
 public:
  explicit Writer(const std::string& arch, uint32_t layers = 2) : prefix_(arch + ".") {
    text("general.architecture", arch);
    set("block_count", layers).set("context_length", 4096).set("embedding_length", 64);
    set("attention.head_count", 2).set("attention.key_length", 32).set("attention.value_length", 32);
    real("attention.layer_norm_rms_epsilon", 1e-6f);
    tensor("token_embd.weight", {64, 1}, 0, std::string(256, '\0'));
  }
  Writer& set(const std::string& name, uint32_t value) {
    u32(prefix_ + name, value);
    return *this;
  }
  Writer& real(const std::string& name, float value) {
    key(prefix_ + name, 6, le(value));
    return *this;
  }
  Writer& list(const std::string& name, const std::vector<int32_t>& values) {
    numbers(prefix_ + name, values);
    return *this;
  }
  Writer& flags(const std::string& name, const std::vector<int>& values) {
    std::string bytes = le<uint32_t>(7) + le<uint64_t>(values.size());
    for (const int value : values) bytes += static_cast<char>(value);
    key(prefix_ + name, 9, bytes);
    return *this;
  }
  Writer& flag(const std::string& name, bool value) {
    key(prefix_ + name, 7, std::string(1, static_cast<char>(value)));
    return *this;
  }
  Writer& word(const std::string& name, const std::string& value) {
    text(prefix_ + name, value);
    return *this;
  }
  Writer& vector(const std::string& name, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += le(value);
    tensor(name, {values.size()}, 0, bytes);
    return *this;
  }

 private:
  std::string prefix_;
};

inline Result<GgufConfig> read(const GgufWriter& writer) {
  const std::string bytes = writer.bytes();
  TRY(const GgufFile file, parse_gguf(std::as_bytes(std::span(bytes)), "x.gguf"));
  return read_gguf_config(file, "x.gguf");
}

inline Json config_of(const GgufWriter& writer) {
  auto config = read(writer);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? config->config : Json::object();
}

inline std::string error_of(const GgufWriter& writer) {
  const auto config = read(writer);
  return config.ok() ? "" : config.error().message;
}

#define EXPECT_ERROR(writer, part) \
  EXPECT_NE(error_of(writer).find(part), std::string::npos) << error_of(writer)

}  // namespace anabranch::testing
