// A GGUF file's metadata about its model, under the prefix of its architecture, and small tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/gguf.h"

namespace anabranch {

// Keys are without the prefix: "block_count". Errors name the file and the key.
class GgufMetadata {
 public:
  GgufMetadata(const GgufFile& file, const std::string& path, std::string prefix)
      : file_(file), path_(path), prefix_(std::move(prefix)) {}

  const std::string& path() const { return path_; }
  // The value under this name, or under another program's name for it; null if absent.
  const Json* find(std::string_view key) const;
  // The same for a whole key, such as "tokenizer.ggml.bos_token_id".
  const Json* find_whole(const std::string& key) const;
  // A whole number from `least`; `fallback` when the key is absent (nullopt: the key must exist). A list is
  // unsupported unless all its entries are equal.
  Result<int64_t> integer(const char* key, int64_t least,
                          std::optional<int64_t> fallback = std::nullopt) const;
  // The same for each of `layers` layers: a list, or one number for all of them.
  Result<std::vector<int64_t>> integers(const char* key, int64_t layers, int64_t least,
                                        std::optional<int64_t> fallback = std::nullopt) const;
  // True or false; `fallback` when the key is absent.
  Result<bool> flag(const char* key, bool fallback) const;
  // A list of true and false, one for each of `layers` layers. Empty when the key is absent or is no list.
  Result<std::vector<bool>> flags(const char* key, int64_t layers) const;
  // A number above zero; `fallback` when the key is absent.
  Result<double> real(const char* key, double fallback) const;

  // Whether the name of any tensor begins with this prefix.
  bool has_tensor_of(std::string_view prefix) const;
  const GgufTensor* tensor(std::string_view name) const;  // null: absent
  // A vector of `count` numbers above zero; ones if only the header was read.
  Result<std::vector<float>> positive_vector(std::string_view name, int64_t count) const;

 private:
  Error error(ErrorKind kind, const char* key, const char* what) const;
  Result<int64_t> integer_of(const char* key, const Json& value, int64_t least) const;

  const GgufFile& file_;
  const std::string& path_;
  std::string prefix_;  // "llama."
};

}  // namespace anabranch
