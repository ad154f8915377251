// LoRA adapters that an engine has loaded, for its requests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

class Engine;
namespace nn {
struct Adapter;
}

// An adapter on the engine's device. Belongs to the engine that loaded it.
struct LoadedAdapter {
  std::string path;
  std::string digest;  // of its names and values; two adapters of the same digest are the same
  std::string base;    // the base model that its file names; empty: it names none
  int rank = 0;        // the largest of its modules
  uint64_t bytes = 0;  // on the device
  std::shared_ptr<const nn::Adapter> weights;
  const Engine* engine = nullptr;  // to which it belongs
};

// An adapter and how much of it a request applies.
struct AppliedAdapter {
  std::shared_ptr<const LoadedAdapter> adapter;
  float scale = 1;  // besides the scale that the adapter's file has
};

inline constexpr size_t kMaxAdapters = 8;  // of one request

// A prefix for a request's cache_salt, so that it does not find cache entries of other adapters. Empty
// without adapters.
std::string adapter_salt(std::span<const AppliedAdapter> adapters);
// The part of a cache_salt that adapter_salt() made.
std::string_view adapter_salt_in(std::string_view cache_salt);

}  // namespace anabranch
