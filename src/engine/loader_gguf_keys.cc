#include "engine/loader_gguf_keys.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "engine/loader.h"
#include "engine/loader_gguf.h"
#include "models/config.h"
#include "tokenizer/gguf_export.h"

namespace anabranch {
namespace {

constexpr int32_t kUnusedToken = 5;

GgufKeys copied_keys(const Checkpoint& source) {
  GgufKeys keys;
  for (const auto& [key, value] : source.gguf_metadata().items())
    if (key.starts_with("tokenizer.") || (key.starts_with("general.") && key != "general.alignment"))
      keys.json(key, value);
  for (const auto& [key, texts] : source.gguf_texts()) keys.texts(key, texts);
  return keys;
}

std::string directory_of(const Checkpoint& source) {
  const std::filesystem::path path = source.path();
  return (std::filesystem::is_directory(path) ? path : path.parent_path()).string();
}

// Pads or cuts the vocabulary to the rows of the embedding table: llama.cpp expects both to be equal.
void fit_to_rows(const Checkpoint& source, GgufVocab& v) {
  const auto table = source.find("model.embed_tokens.weight");
  if (!table || table->shape.empty()) return;
  const auto rows = static_cast<size_t>(table->shape[0]);
  while (v.tokens.size() < rows) v.tokens.push_back(fmt::format("[PAD{}]", v.tokens.size()));
  v.tokens.resize(rows);
  v.types.resize(rows, kUnusedToken);
  if (!v.scores.empty()) v.scores.resize(rows, *std::ranges::min_element(v.scores));
}

// The ids under `key` in generation_config.json and config.json.
std::vector<int> ids_at(const Checkpoint& source, const char* key) {
  const auto text = source.side_file("generation_config.json");
  const auto generation = text ? parse_json(*text) : Result<Json>(Json());
  const Json& config = source.config();
  const auto inner = config.find("text_config");
  std::vector<int> ids;
  for (const Json* from :
       {generation ? &*generation : nullptr, &config, inner == config.end() ? nullptr : &*inner}) {
    if (!from || !from->is_object() || !from->contains(key)) continue;
    for (const int id : read_token_ids((*from)[key]))
      if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

// The first eos_token_id is the usual end (eos). Another one, if there is any, is the end of a turn (eot).
void add_special_ids(const Checkpoint& source, const GgufVocab& v, GgufKeys& keys) {
  const auto add = [&](const char* name, int id) {
    if (id >= 0 && static_cast<size_t>(id) < v.tokens.size())
      keys.u32(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint64_t>(id));
  };
  const auto first_of = [](const std::vector<int>& ids) { return ids.empty() ? -1 : ids.front(); };
  const auto ends = ids_at(source, "eos_token_id");
  const int eos = v.eos >= 0 ? v.eos : first_of(ends);
  add("bos", v.bos >= 0 ? v.bos : first_of(ids_at(source, "bos_token_id")));
  add("eos", eos);
  if (const auto other = std::ranges::find_if(ends, [&](int id) { return id != eos; }); other != ends.end())
    add("eot", *other);
  add("unknown", v.unk);
  add("padding", v.pad >= 0 ? v.pad : first_of(ids_at(source, "pad_token_id")));
}

}  // namespace

Result<GgufKeys> gguf_keys_of(const Checkpoint& source) {
  if (is_gguf(source)) return copied_keys(source);
  auto vocab = export_gguf_vocab(directory_of(source));
  if (!vocab && vocab.error().kind == ErrorKind::not_found) return GgufKeys();
  if (!vocab) return vocab.error();
  fit_to_rows(source, *vocab);
  GgufKeys keys;
  keys.text("tokenizer.ggml.model", vocab->model).text("tokenizer.ggml.pre", vocab->pre);
  keys.texts("tokenizer.ggml.tokens", std::span<const std::string>(vocab->tokens));
  keys.i32s("tokenizer.ggml.token_type", vocab->types);
  if (!vocab->scores.empty()) keys.f32s("tokenizer.ggml.scores", vocab->scores);
  if (!vocab->merges.empty())
    keys.texts("tokenizer.ggml.merges", std::span<const std::string>(vocab->merges));
  add_special_ids(source, *vocab, keys);
  keys.flag("tokenizer.ggml.add_bos_token", vocab->add_bos.value_or(false));
  keys.flag("tokenizer.ggml.add_space_prefix", vocab->add_space_prefix.value_or(false));
  TRY(const std::string chat_template, chat_template_source(source));
  if (!chat_template.empty()) keys.text("tokenizer.chat_template", chat_template);
  return keys;
}

}  // namespace anabranch
