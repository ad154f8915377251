// Shared by the engine's tests: model directories made of the tiny golden checkpoints, and what collects a
// request's events.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors_writer.h"
#include "engine/engine.h"
#include "slow.h"

namespace anabranch::testing {

// A tokenizer of 256 bytes, <eos>, <think> and </think>.
inline std::string byte_tokenizer() {
  Json vocab = Json::object();
  const auto add_byte = [&](int code_point) {
    std::string utf8;
    if (code_point < 0x80)
      utf8 += static_cast<char>(code_point);
    else
      (utf8 += static_cast<char>(0xC0 | code_point >> 6)) += static_cast<char>(0x80 | (code_point & 63));
    vocab[utf8] = vocab.size();
  };
  // GPT-2's printable stand-ins for the 256 bytes.
  for (int b = 33; b < 127; b++) add_byte(b);
  for (int b = 161; b < 256; b++)
    if (b != 173) add_byte(b);
  for (int c = 256; c < 256 + 68; c++) add_byte(c);
  Json added = Json::array();
  for (const char* name : {"<eos>", "<think>", "</think>"})
    added.push_back({{"id", 256 + added.size()},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", true}};
  const Json tokenizer = {{"version", "1.0"},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", byte_level},
                          {"post_processor", nullptr},
                          {"decoder", byte_level},
                          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  return tokenizer.dump();
}

// tests/models/data/<name> with the byte tokenizer beside it, in a directory of its own.
class TinyModel {
 public:
  explicit TinyModel(const std::string& name) {
    std::filesystem::copy(ANABRANCH_SOURCE_DIR "/tests/models/data/" + name + "/model", dir_.path(),
                          std::filesystem::copy_options::recursive);
    dir_.write("tokenizer.json", byte_tokenizer());
    dir_.write("chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  }
  std::string path() const { return dir_.path(); }
  void write(const std::string& file, const std::string& text) const { dir_.write(file, text); }

  // Passes every tensor of model.safetensors through `change` (name, shape, bytes).
  using Change = std::function<void(const std::string&, std::vector<int64_t>&, std::string&)>;
  void edit_tensors(const Change& change) const {
    edit_types([&](const std::string& name, std::string&, std::vector<int64_t>& shape, std::string& bytes) {
      change(name, shape, bytes);
    });
  }
  // The same for `change` (name, dtype, shape, bytes).
  using ChangeType =
      std::function<void(const std::string&, std::string&, std::vector<int64_t>&, std::string&)>;
  void edit_types(const ChangeType& change) const {
    const std::string file = read_file(dir_.file("model.safetensors"), 1 << 30).value();
    uint64_t header_size = 0;
    std::memcpy(&header_size, file.data(), 8);
    const Json header = parse_json(file.substr(8, header_size)).value();
    SafetensorsWriter out;
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__") continue;
      const auto at = tensor["data_offsets"].get<std::vector<size_t>>();
      auto shape = tensor["shape"].get<std::vector<int64_t>>();
      std::string bytes = file.substr(8 + header_size + at[0], at[1] - at[0]);
      auto dtype = tensor["dtype"].get<std::string>();
      change(name, dtype, shape, bytes);
      out.add(name, dtype, shape, bytes);
    }
    dir_.write("model.safetensors", out.bytes());
  }
  // Another model that mostly agrees: half of the bf16 weights of its feed-forward layers are up to 12 % off.
  void disturb() const {
    edit_tensors([](const std::string& name, std::vector<int64_t>&, std::string& bytes) {
      if (name.find("mlp.down_proj") == std::string::npos) return;
      for (size_t i = 0; i < bytes.size(); i += 4) bytes[i] ^= 0x10;
    });
  }
  // A key of config.json, which must not nest a text_config.
  void set_config(const std::string& key, const Json& value) const {
    Json config = parse_json(read_file(dir_.file("config.json"), 1 << 24).value()).value();
    config[key] = value;
    dir_.write("config.json", config.dump());
  }

 private:
  TempDir dir_;
};

// Collects events of many requests; wait(id) blocks for the terminal one.
class Collector {
 public:
  struct Record {
    std::vector<int> tokens;
    std::vector<TokenLogprobs> logprobs;
    int terminal = 0;
    Event last;
  };
  Sink sink(int key) {
    return [this, key](const Event& event) {
      std::lock_guard lock(mutex_);
      auto& r = records_[key];
      r.tokens.insert(r.tokens.end(), event.tokens.begin(), event.tokens.end());
      r.logprobs.insert(r.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
      if (event.finish != FinishReason::none) {
        r.terminal++;
        r.last = event;
      }
      changed_.notify_all();
    };
  }
  Record wait(int key) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(300 * kSlowdown),
                                  [&] { return records_[key].terminal > 0; }));
    return records_[key];
  }
  void wait_for_tokens(int key, size_t n) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return records_[key].tokens.size() >= n; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Record> records_;
};

inline Request request_of(int length, int max_tokens, float temperature = 0.8f, uint64_t seed = 11) {
  Request r;
  for (int i = 0; i < length; i++) r.prompt.push_back((i * 37 + 5) % 250);
  r.sampling.temperature = temperature;
  r.sampling.seed = seed;
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  return r;
}

inline Collector::Record run_to_end(Engine& engine, Request request) {
  Collector collector;
  const auto id = engine.submit(std::move(request), collector.sink(0));
  EXPECT_TRUE(id.ok()) << id.error().message;
  return id.ok() ? collector.wait(0) : Collector::Record{};
}
inline std::vector<int> run(Engine& engine, Request request) {
  return run_to_end(engine, std::move(request)).tokens;
}

}  // namespace anabranch::testing
