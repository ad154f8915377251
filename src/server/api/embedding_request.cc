#include "server/api/embedding_request.h"

#include <fmt/format.h>

#include <climits>
#include <optional>

#include "server/api/common_fields.h"
#include "server/api/keep_alive.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostTexts = 2048;  // OpenAI's limit

// The text of llama-server's objects {"prompt_string": text} and {"content": [{"type": "text", "text":
// text}]}.
std::optional<std::string> text_of(const Json& value) {
  if (const auto it = value.find("prompt_string"); it != value.end())
    return it->is_string() ? std::optional(it->get<std::string>()) : std::nullopt;
  const auto parts = value.find("content");
  if (parts == value.end() || !parts->is_array()) return std::nullopt;
  std::string text;
  for (const Json& part : *parts) {
    if (string_at(part, "type") != "text") return std::nullopt;
    text += string_at(part, "text");
  }
  return text;
}

// Reads a text, or a list of token ids and texts. Nothing for other values.
std::optional<std::vector<int>> read_one(const Json& value, RequestEncoder& texts) {
  const Tokenizer& tokenizer = texts.tokenizer();
  const auto text = value.is_object() ? text_of(value) : std::nullopt;
  if (value.is_string() || text) {
    auto ids = texts.encode(text ? *text : value.get<std::string>(), true);
    add_leading_bos(tokenizer, ids);
    return ids;
  }
  if (!value.is_array()) return std::nullopt;
  std::vector<int> ids;
  for (const Json& part : value) {
    if (part.is_string()) {
      const auto more = texts.encode(part.get<std::string>(), true, ids.size());
      ids.insert(ids.end(), more.begin(), more.end());
      continue;
    }
    if (!part.is_number_unsigned() || part.get<uint64_t>() >= static_cast<uint64_t>(tokenizer.vocab_size()))
      return std::nullopt;
    ids.push_back(part.get<int>());
  }
  return ids;
}

class Reader {
 public:
  Reader(const ModelInfo& info, RequestEncoder& texts, bool cuts) : info_(info), texts_(texts), cuts_(cuts) {}

  void read(JsonFields& fields, const char* name, EmbeddingRequest& out) const {
    const Json* input = fields.find(name);
    if (!input) return fields.fail(name, "missing_required_parameter", fmt::format("'{}' is missing", name));
    const bool several = input->is_array() && !input->empty() && !input->front().is_number();
    const size_t count = several ? input->size() : 1;
    if (count > kMostTexts)
      return fields.fail(name, "invalid_value",
                         fmt::format("'{}' has {} texts, but may have {}", name, count, kMostTexts));
    for (size_t i = 0; i < count && !fields.error(); ++i)
      add(fields, several ? fmt::format("{}[{}]", name, i) : name, several ? (*input)[i] : *input, out);
  }

  void add(JsonFields& fields, const std::string& where, const Json& value, EmbeddingRequest& out) const {
    auto ids = read_one(value, texts_);
    if (texts_.stopped())
      fields.fail(texts_.error(where));
    else if (!ids || ids->empty())
      fields.fail(where, "invalid_value",
                  fmt::format("'{}' must be a text or a list of token ids, and not be empty", where));
    else
      out.prompts.push_back(ended(fields, where, std::move(*ids)));
  }

 private:
  // Adds the tokens that end a text, and checks the context length.
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
  RequestEncoder& texts_;
  const bool cuts_;
};

// A question to Qwen3-Reranker, in the format of its model card.
std::string question(const std::string& task, const std::string& query, const std::string& document) {
  return fmt::format(
      "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
      "Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
      "<|im_start|>user\n<Instruct>: {}\n<Query>: {}\n<Document>: {}<|im_end|>\n"
      "<|im_start|>assistant\n<think>\n\n</think>\n\n",
      task, query, document);
}

// The texts to rank: strings, or objects with a "text".
std::vector<std::string> read_documents(JsonFields& fields, const char* name) {
  std::vector<std::string> documents;
  const Json* list = fields.find(name);
  if (!list || !list->is_array() || list->empty() || list->size() > kMostTexts) {
    fields.fail(name, "invalid_value", fmt::format("'{}' must be a list of 1 to {} texts", name, kMostTexts));
    return documents;
  }
  for (const Json& entry : *list) {
    const Json text = entry.is_object() ? entry.value("text", Json()) : entry;
    if (!text.is_string())
      fields.fail(fmt::format("{}[{}]", name, documents.size()), "invalid_type",
                  "a document must be a string, or an object with a string 'text'");
    documents.push_back(text.is_string() ? text.get<std::string>() : "");
  }
  return documents;
}

constexpr const char* kUsualTask =
    "Given a web search query, retrieve relevant passages that answer the query";

EmbeddingRequest read_ranking(JsonFields& fields, const ModelInfo& info, RequestEncoder& texts) {
  EmbeddingRequest out;
  const bool tei = fields.find("texts") && !fields.find("documents");
  out.format = tei ? EmbeddingFormat::tei_ranking : EmbeddingFormat::ranking;
  const std::string* query = fields.string("query");
  if (!query) fields.fail("query", "missing_required_parameter", "'query' is missing");
  out.documents = read_documents(fields, tei ? "texts" : "documents");
  const auto most = fields.integer("top_n", 1, INT_MAX);
  if (most) out.most = static_cast<size_t>(*most);
  const bool repeats = fields.boolean(tei ? "return_text" : "return_documents").value_or(false);
  const std::string* task = fields.string("instruction");
  const std::string usual = kUsualTask;
  if (fields.error()) return out;
  const Reader reader(info, texts, false);
  out.pooling = *info.pooling;
  const bool asks = info.pooling == Pooling::rank;
  if (asks) {
    const auto yes = texts.encode("yes", false), no = texts.encode("no", false);
    if (yes.size() != 1 || no.size() != 1)
      fields.fail("model", "unsupported_value",
                  "The model has no tokens 'yes' and 'no', so it is no reranker");
    else
      out.classes = {yes[0], no[0]};
  } else {
    reader.add(fields, "query", *query, out);
  }
  for (size_t i = 0; i < out.documents.size() && !fields.error(); ++i)
    reader.add(fields, fmt::format("{}[{}]", tei ? "texts" : "documents", i),
               asks ? question(task ? *task : usual, *query, out.documents[i]) : out.documents[i], out);
  if (!repeats) out.documents.clear();
  return out;
}

}  // namespace

ApiResult<EmbeddingRequest> parse_embedding_request(std::string_view body, EmbeddingApi api,
                                                    const ModelInfo& info, RequestEncoder& texts) {
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  fields.string("model");
  fields.only("lora", {Json::array()}, "embeddings are those of the model without adapters");
  const bool ollama = api == EmbeddingApi::ollama || api == EmbeddingApi::ollama_one;
  if (!info.pooling && !ollama)
    return ApiError{
        400,
        "The model's files do not say that it makes embeddings: take a model for them, or start the "
        "server with --pooling",
        "model", "unsupported_value"};
  if (api == EmbeddingApi::rerank) {
    auto out = read_ranking(fields, info, texts);
    check_timeout(fields);
    if (fields.error()) return *fields.error();
    return out;
  }
  if (info.pooling == Pooling::rank)
    return ApiError{400, "The model is a reranker and makes no embeddings: ask /v1/rerank", "model",
                    "unsupported_value"};
  const bool openai = api == EmbeddingApi::openai;
  EmbeddingRequest out;
  out.pooling = info.pooling.value_or(Pooling::last);
  out.format = openai                            ? EmbeddingFormat::floats
               : api == EmbeddingApi::ollama_one ? EmbeddingFormat::ollama_one
                                                 : EmbeddingFormat::ollama;
  if (const std::string* format = openai ? fields.string("encoding_format") : nullptr) {
    fields.only("encoding_format", {"float", "base64"}, "it must be float or base64");
    if (*format == "base64") out.format = EmbeddingFormat::base64;
  }
  out.dimensions = static_cast<int>(fields.integer("dimensions", 1, info.hidden).value_or(0));
  check_timeout(fields);
  const bool cuts = !openai && fields.boolean("truncate").value_or(true);
  if (!openai) out.keep_s = read_keep_alive(fields);
  const char* name = api == EmbeddingApi::ollama_one ? "prompt" : "input";
  const Json* input = fields.find(name);
  const bool empty = !input || *input == "" || (input->is_array() && input->empty());
  if (openai || !empty) Reader(info, texts, cuts).read(fields, name, out);
  if (fields.error()) return *fields.error();
  return out;
}

}  // namespace anabranch::server
