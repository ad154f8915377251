// A model that plays given tokens: what comes next is a function of all tokens so far, whatever the weights.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/loader.h"
#include "engine/tiny_model.h"

namespace anabranch::testing {

// The next token after these (the prompt included).
using Script = std::function<int(const std::vector<int>& tokens)>;

constexpr int kEos = 256, kThink = 257, kThinkEnd = 258, kToolCall = 259, kToolCallEnd = 260, kVocab = 261;

// The byte tokenizer with the tokens above.
inline std::string scripted_tokenizer() {
  Json tokenizer = parse_json(byte_tokenizer()).value();
  for (const char* name : {"<tool_call>", "</tool_call>"}) {
    Json token = tokenizer["added_tokens"].back();
    token["id"] = 256 + tokenizer["added_tokens"].size();
    token["content"] = name;
    tokenizer["added_tokens"].push_back(token);
  }
  return tokenizer.dump();
}

class ScriptedModel final : public Model {
 public:
  // The prompt's first token chooses the script.
  ScriptedModel(Device& device, std::vector<Script> scripts)
      : Model(spec_of(),
              {weight(device), {}, Ranks(no_layers(device)), norm(device), OutputHead(weight(device))}),
        scripts_(std::move(scripts)) {}

  // Rows whose token the host did not know yet.
  int followed() const { return followed_; }
  // What each pass takes at least, and each of its tokens.
  static inline std::atomic<std::chrono::microseconds> pass_time{}, token_time{};

  Output forward(const Batch& batch, std::vector<Tensor>* after_layer) const override {
    const auto takes = pass_time.load() + static_cast<int>(batch.ids.size()) * token_time.load();
    if (takes.count() > 0) std::this_thread::sleep_for(takes);
    Output out = Model::forward(batch, after_layer);
    out.logits = device().empty({static_cast<int>(batch.logit_rows.size()), kVocab}, Dtype::f32);
    float* logits = out.logits.data<float>();
    std::fill(logits, logits + out.logits.size(), 0.0f);
    size_t next = 0;
    for (const Span& span : batch.spans) {
      auto& tokens = tokens_[span.state];
      for (int row = span.begin; row < span.begin + span.count; row++) {
        tokens.resize(static_cast<size_t>(batch.positions[row]));  // what was refused is gone
        const int id = batch.ids[row];
        followed_ += id < 0;
        tokens.push_back(id >= 0 ? id : batch.chosen->data<int>()[-1 - id]);
        if (next < batch.logit_rows.size() && batch.logit_rows[next] == row)
          logits[next++ * kVocab + static_cast<size_t>(scripts_.at(tokens[0])(tokens))] = 40.0f;
      }
    }
    return out;
  }

 private:
  static std::vector<Rank> no_layers(Device& device) {
    std::vector<Rank> ranks;
    ranks.push_back({&device, {}});
    return ranks;
  }
  static ModelSpec spec_of() {
    ModelSpec spec;
    spec.family = "scripted";
    spec.hidden = 32;
    spec.vocab = kVocab;
    spec.context_length = 65536;
    spec.eos = {kEos};
    return spec;
  }
  static ops::Weight weight(Device& device) {
    WeightSource source;
    source.rows = kVocab;
    source.cols = 32;
    source.read_dense = [](int64_t, int64_t count, float* values) {
      std::fill(values, values + count * 32, 0.5f);
    };
    return ops::Weight::make(device, source);
  }
  static nn::Norm norm(Device& device) {
    nn::Norm norm{{.weight = device.empty({32}, Dtype::f32)}};
    std::fill(norm.weight.data<float>(), norm.weight.data<float>() + 32, 1.0f);
    return norm;
  }

  std::vector<Script> scripts_;
  mutable std::atomic<int> followed_{0};
  mutable std::map<const SequenceState*, std::vector<int>> tokens_;  // engine thread only
};

// Loads a ScriptedModel with its tokenizer.
inline LoadFunction scripted_model(std::vector<Script> scripts) {
  return [scripts = std::move(scripts)](std::shared_ptr<Device> device) -> Result<LoadedModel> {
    const TempDir folder;
    folder.write("tokenizer.json", scripted_tokenizer());
    LoadedModel loaded;
    loaded.device = device;
    loaded.model = std::make_unique<ScriptedModel>(*device, scripts);
    TRY(loaded.tokenizer, Tokenizer::from_file(folder.file("tokenizer.json")));
    loaded.eos = {kEos};
    loaded.info.name = "scripted";
    describe(*loaded.model, loaded.info);
    return loaded;
  };
}

inline std::unique_ptr<Engine> scripted_engine(std::vector<Script> scripts, EngineOptions options = {}) {
  auto engine = create_engine(options, scripted_model(std::move(scripts)));
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

}  // namespace anabranch::testing
