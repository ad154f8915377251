#include "engine/loader_gguf.h"

#include <algorithm>
#include <cstdint>

#include "base/json.h"
#include "tokenizer/gguf_files.h"

namespace anabranch {
namespace {

constexpr int64_t kNoToken = 0xFFFFFFFF;  // as llama.cpp writes it

// -> -1 for kNoToken, and for a number beyond int32_t one that no vocabulary has. Throws Json::exception if
// the number has a fraction, or could have one.
int32_t whole(const Json& number) {
  const int64_t value = number.get_ref<const Json::number_integer_t&>();
  if (value == kNoToken) return -1;
  return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}

}  // namespace

bool is_gguf(const Checkpoint& checkpoint) {
  return checkpoint.gguf_metadata().is_object();
}

Result<GgufVocab> read_gguf_vocab(const Checkpoint& checkpoint) {
  const Json& meta = checkpoint.gguf_metadata();
  const auto at = [&](const char* key) -> const Json* {
    const auto it = meta.find(std::string("tokenizer.ggml.") + key);
    return it == meta.end() ? nullptr : &*it;
  };
  const auto texts_at = [&](const char* key, std::vector<std::string>& out) {
    const auto it = checkpoint.gguf_texts().find(std::string("tokenizer.ggml.") + key);
    if (it != checkpoint.gguf_texts().end())
      out.assign(it->second.begin(), it->second.end());
    else if (const Json* v = at(key))  // one value of another type
      out = v->get<std::vector<std::string>>();
  };
  GgufVocab vocab;
  try {
    if (const Json* v = at("model")) vocab.model = v->get<std::string>();
    if (const Json* v = at("pre")) vocab.pre = v->get<std::string>();
    // Ollama gives Gemma 4's tokenizer the model name "llama", although it has merges.
    if (vocab.model == "llama" && vocab.pre == "gemma4") vocab.model = "gemma4";
    vocab.architecture = string_at(meta, "general.architecture");
    texts_at("tokens", vocab.tokens);
    if (const Json* v = at("scores")) vocab.scores = v->get<std::vector<float>>();
    if (const Json* v = at("token_type"))
      for (const Json& type : v->get_ref<const Json::array_t&>()) vocab.types.push_back(whole(type));
    texts_at("merges", vocab.merges);
    if (const Json* v = at("bos_token_id")) vocab.bos = whole(*v);
    if (const Json* v = at("eos_token_id")) vocab.eos = whole(*v);
    if (const Json* v = at("unknown_token_id")) vocab.unk = whole(*v);
    if (const Json* v = at("padding_token_id")) vocab.pad = whole(*v);
    if (const Json* v = at("add_bos_token")) vocab.add_bos = v->get<bool>();
    if (const Json* v = at("add_space_prefix")) vocab.add_space_prefix = v->get<bool>();
  } catch (const Json::exception& e) {
    return make_error(ErrorKind::invalid, "{}: tokenizer metadata of the wrong type: {}", checkpoint.path(),
                      e.what());
  }
  return vocab;
}

Result<std::map<std::string, std::string>> gguf_side_files(const Checkpoint& checkpoint) {
  TRY(const auto vocab, read_gguf_vocab(checkpoint));
  TRY(auto files, tokenizer_files(vocab));
  std::map<std::string, std::string> out;
  out["tokenizer.json"] = std::move(files.tokenizer);
  out["tokenizer_config.json"] = std::move(files.config);
  Json generation = Json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const auto id = checkpoint.config().find(key); id != checkpoint.config().end() && !id->is_null())
      generation[key] = *id;
  out["generation_config.json"] = dump_json(generation, 2) + "\n";
  if (auto text = string_at(checkpoint.gguf_metadata(), "tokenizer.chat_template"); !text.empty())
    out["chat_template.jinja"] = std::move(text);
  return out;
}

}  // namespace anabranch
