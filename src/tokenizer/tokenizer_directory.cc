// Finds a model's tokenizer among the files of its directory.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/mapped_file.h"
#include "tokenizer/vocab_files.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxVocabFile = 256u << 20;
constexpr size_t kMaxSideFile = 32u << 20;

bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

// "" if there is no such file.
Result<std::string> read_if_there(const fs::path& path) {
  auto text = read_file(path.string(), kMaxSideFile);
  if (text.ok() || text.error().kind != ErrorKind::not_found) return text;
  return std::string();
}

Result<TokenizerSettings> settings_of(const fs::path& directory) {
  TokenizerSideFiles files;
  TRY(files.tokenizer_config, read_if_there(directory / "tokenizer_config.json"));
  TRY(files.special_tokens_map, read_if_there(directory / "special_tokens_map.json"));
  TRY(files.added_tokens, read_if_there(directory / "added_tokens.json"));
  TRY(files.config, read_if_there(directory / "config.json"));
  auto settings = read_tokenizer_settings(files);
  if (!settings)
    return make_error(settings.error().kind, "{}: {}", directory.string(), settings.error().message);
  // Mistral's own layout.
  if (settings->model_type.empty() && is_there(directory / "params.json")) settings->model_type = "mistral";
  return settings;
}

// tokenizer.model, or the newest of Mistral's tokenizer.model.v1, v2, ...; empty if there is none.
fs::path find_sentencepiece(const fs::path& directory) {
  if (is_there(directory / "tokenizer.model")) return directory / "tokenizer.model";
  for (int version = 15; version > 0; --version)
    if (const auto path = directory / fmt::format("tokenizer.model.v{}", version); is_there(path))
      return path;
  return {};
}

// `parts`, with the file's name in its error.
Result<TokenizerParts> of_file(Result<TokenizerParts> parts, const fs::path& path) {
  if (!parts) return make_error(parts.error().kind, "{}: {}", path.string(), parts.error().message);
  return parts;
}

}  // namespace

Result<TokenizerParts> read_tokenizer_directory(const std::string& path) {
  const fs::path directory(path);
  if (is_there(directory / "tokenizer.json"))
    return read_tokenizer_file((directory / "tokenizer.json").string());
  if (const auto tekken = directory / "tekken.json"; is_there(tekken)) {
    TRY(const std::string json, read_file(tekken.string(), kMaxVocabFile));
    return of_file(read_tekken_tokenizer(json), tekken);
  }
  for (const std::string_view name : tiktoken_files())
    if (const auto ranks = directory / name; is_there(ranks)) {
      TRY(const std::string text, read_file(ranks.string(), kMaxVocabFile));
      TRY(const auto settings, settings_of(directory));
      return of_file(read_tiktoken_tokenizer(name, text, settings), ranks);
    }
  if (const auto model = find_sentencepiece(directory); !model.empty()) {
    TRY(const std::string bytes, read_file(model.string(), kMaxVocabFile));
    TRY(auto settings, settings_of(directory));
    return of_file(read_sentencepiece_tokenizer(bytes, std::move(settings)), model);
  }
  const auto vocab = directory / "vocab.json", merges = directory / "merges.txt";
  if (is_there(vocab) && is_there(merges)) {
    TRY(const std::string tokens, read_file(vocab.string(), kMaxVocabFile));
    TRY(const std::string pairs, read_file(merges.string(), kMaxVocabFile));
    TRY(const auto settings, settings_of(directory));
    return of_file(read_merges_tokenizer(tokens, pairs, settings), directory);
  }
  return make_error(
      ErrorKind::not_found,
      "{} has no tokenizer: neither tokenizer.json, tekken.json, tokenizer.model, tiktoken.model, "
      "hy.tiktoken, nor vocab.json with merges.txt; copy those of the original model there",
      directory.string());
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_directory(const std::string& path) {
  TRY(auto parts, read_tokenizer_directory(path));
  return make_tokenizer(std::move(parts));
}

}  // namespace anabranch
