// The JSON bodies of the generating routes. The first byte chooses the route.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/api/anthropic/request.h"
#include "server/api/embedding_request.h"
#include "server/api/llama/request.h"
#include "server/api/ollama/request.h"
#include "server/api/openai/request.h"
#include "server/api/responses/request.h"
#include "server/api/shorten.h"

using namespace anabranch::server;

namespace {

// A token for each byte, and those that fill a gap.
class ByteTokenizer : public anabranch::Tokenizer {
 public:
  std::vector<int> encode(std::string_view text, bool, anabranch::EncodeLimit*) const override {
    return {reinterpret_cast<const uint8_t*>(text.data()),
            reinterpret_cast<const uint8_t*>(text.data()) + text.size()};
  }
  std::vector<int> encode(std::span<const anabranch::PromptPiece>, anabranch::SegmentMemo*, std::string_view,
                          anabranch::EncodeLimit*) const override {
    return {};
  }
  std::string_view token_bytes(int) const override { return "\xe4"; }
  bool is_special(int id) const override { return id > 255; }
  std::optional<int> find(std::string_view content) const override {
    return content.starts_with("<|fim_") ? std::optional(256) : std::nullopt;
  }
  int vocab_size() const override { return 257; }
  std::optional<int> bos() const override { return 256; }
  std::optional<int> eos() const override { return 256; }
  bool add_bos() const override { return true; }
  std::string decode(std::span<const int> ids, bool) const override { return std::string(ids.size(), 'x'); }
};

void check_error(const ApiError* error) {
  if (error && error_response(*error).body.empty()) std::abort();
}

// What the template relies on: a content is a text, or a list of texts and images.
size_t check_content(const anabranch::Json& content) {
  size_t images = 0;
  if (content.is_string()) return images;
  for (const auto& part : content) {
    const bool image = part.at("type") == "image";
    if (!image && !part.at("text").is_string()) std::abort();
    images += image;
  }
  return images;
}

void check_chat(const anabranch::ChatRequest& request) {
  if (request.messages.empty()) std::abort();
  size_t images = 0;
  for (const auto& message : request.messages) {
    if (!message.at("role").is_string() || message.contains("images")) std::abort();
    images += check_content(message.at("content"));
  }
  if (images != request.images.size() || images > kMaxImages) std::abort();
  for (const auto& image : request.images)
    if (image.bytes.empty() || image.field.empty()) std::abort();
  if (request.options.max_tokens == 0 || request.options.stop.size() > 16) std::abort();
}

template <class Request>
const Request* checked(const ApiResult<Request>& result) {
  check_error(result ? nullptr : &result.error());
  return result ? &*result : nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const RequestDefaults defaults{
      anabranch::SamplingParams{}, {}, 1000, {}, "", true, [](const std::string& url, size_t bytes) {
        return url.substr(0, bytes);
      }};
  static ResponseContext context(*SessionStores::open({}), nullptr, "");
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] & 32) {
    static const ByteTokenizer tokenizer;
    anabranch::server::RequestEncoder texts(tokenizer, 100, 40, {});
    static const anabranch::ModelInfo kEmbedder{
        .context_length = 40, .hidden = 8, .pooling = anabranch::Pooling::last};
    if (data[0] & 1)
      checked(parse_llama_request(body, defaults, texts));
    else if (data[0] & 64)
      checked(parse_embedding_request(body, static_cast<EmbeddingApi>(data[0] >> 1 & 3), kEmbedder, texts));
    else if (data[0] & 2)
      checked(parse_infill_request(body, defaults, texts));
    else
      checked(data[0] & 4 ? tokenize(body, texts, 40) : detokenize(body, tokenizer));
  } else if (data[0] & 16) {
    const auto result = parse_ollama_request(body, data[0] & 1, defaults);
    const auto* request = checked(result);
    if (const auto* chat = request ? std::get_if<anabranch::ChatRequest>(&request->asks) : nullptr)
      check_chat(*chat);
  } else if (data[0] & 8) {
    const auto result = parse_responses_request(body, defaults, context, "", [] { return false; });
    if (const auto* request = checked(result)) {
      check_chat(request->chat);
      if (const auto shorter = from_turn(request->chat.messages, 1); !shorter.is_null() && shorter.empty())
        std::abort();
    }
  } else if (data[0] & 1) {
    checked(parse_completion_request(body, defaults));
  } else if (const auto result = data[0] & 2 ? parse_messages_request(body, defaults, data[0] & 4)
                                             : parse_chat_request(body, defaults);
             const auto* request = checked(result)) {
    check_chat(*request);
  }
  return 0;
}
