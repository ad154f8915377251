#include "server/api/embedding_request.h"

#include <fmt/format.h>

#include <optional>

#include "server/api/api_request.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostTexts = 2048;  // OpenAI's limit

// A text, or token ids. None for other values.
std::optional<std::vector<int>> read_one(const Json& value, const Tokenizer& tokenizer) {
  if (value.is_string()) {
    auto ids = tokenizer.encode(value.get<std::string>(), true);
    add_leading_bos(tokenizer, ids);
    return ids;
  }
  if (!value.is_array()) return std::nullopt;
  std::vector<int> ids;
  for (const Json& id : value) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(tokenizer.vocab_size()))
      return std::nullopt;
    ids.push_back(id.get<int>());
  }
  return ids;
}

class Reader {
 public:
  Reader(const ModelInfo& info, const Tokenizer& tokenizer, bool cuts)
      : info_(info), tokenizer_(tokenizer), cuts_(cuts) {}

  void read(JsonFields& fields, const char* name, EmbeddingRequest& out) const {
    const Json* input = fields.find(name);
    if (!input) return fields.fail(name, "missing_required_parameter", fmt::format("'{}' is missing", name));
    const bool several = input->is_array() && !input->empty() && !input->front().is_number();
    const size_t count = several ? input->size() : 1;
    if (count > kMostTexts)
      return fields.fail(name, "invalid_value",
                         fmt::format("'{}' has {} texts, but may have {}", name, count, kMostTexts));
    for (size_t i = 0; i < count && !fields.error(); ++i) {
      const std::string where = several ? fmt::format("{}[{}]", name, i) : name;
      auto ids = read_one(several ? (*input)[i] : *input, tokenizer_);
      if (!ids || ids->empty())
        fields.fail(where, "invalid_value",
                    fmt::format("'{}' must be a text or a list of token ids, and not be empty", where));
      else
        out.prompts.push_back(ended(fields, where, std::move(*ids)));
    }
  }

 private:
  // With the tokens that end a text, within the context.
  std::vector<int> ended(JsonFields& fields, const std::string& where, std::vector<int> ids) const {
    const auto& end = info_.embedding_end;
    const auto room = static_cast<size_t>(info_.context_length) - 1 - end.size();
    if (ids.size() > room && !cuts_) {
      ApiError error{400,
                     fmt::format("This model's maximum context length is {} tokens, but '{}' has {}",
                                 info_.context_length, where, ids.size() + end.size()),
                     where, "context_length_exceeded"};
      error.prompt_tokens = ids.size() + end.size();
      error.context = static_cast<size_t>(info_.context_length);
      fields.fail(std::move(error));
    }
    ids.resize(std::min(ids.size(), room));
    ids.insert(ids.end(), end.begin(), end.end());
    return ids;
  }

  const ModelInfo& info_;
  const Tokenizer& tokenizer_;
  const bool cuts_;
};

}  // namespace

std::variant<EmbeddingRequest, ApiError> parse_embedding_request(std::string_view body, EmbeddingApi api,
                                                                 const ModelInfo& info,
                                                                 const Tokenizer& tokenizer) {
  auto json = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&json)) return std::move(*error);
  JsonFields fields(std::get<Json>(json));
  fields.string("model");
  const bool openai = api == EmbeddingApi::openai;
  EmbeddingRequest out;
  out.form = openai                            ? EmbeddingForm::floats
             : api == EmbeddingApi::ollama_one ? EmbeddingForm::ollama_one
                                               : EmbeddingForm::ollama;
  if (const std::string* format = openai ? fields.string("encoding_format") : nullptr) {
    fields.only("encoding_format", {"float", "base64"}, "it must be float or base64");
    if (*format == "base64") out.form = EmbeddingForm::base64;
  }
  out.dimensions = static_cast<int>(fields.integer("dimensions", 1, info.hidden).value_or(0));
  out.timeout_s = read_timeout(fields);
  const bool cuts = !openai && fields.boolean("truncate").value_or(true);
  if (!fields.error() && !info.pooling)
    return ApiError{
        400,
        "The model's files do not say that it makes embeddings: take a model for them, or start the "
        "server with --pooling",
        "model", "unsupported_value"};
  Reader(info, tokenizer, cuts).read(fields, api == EmbeddingApi::ollama_one ? "prompt" : "input", out);
  if (fields.error()) return *fields.error();
  return out;
}

}  // namespace anabranch::server
