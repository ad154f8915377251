#include "server/api/content_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace anabranch::server {
namespace {

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

// A string, or the joined blocks of a list; blocks that are not text become placeholders.
std::string content_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array())
    for (const Json& block : content) {
      const bool plain = block.is_object() && string_at(block, "type") == "text";
      add_line(text, plain ? string_at(block, "text") : shown_text(block));
    }
  return text;
}

std::optional<std::string> document_text(const Json& document) {
  const Json* source = member(document, "source");
  if (!source || !source->is_object()) return std::nullopt;
  const std::string type = string_at(*source, "type");
  if (type == "text") return string_at(*source, "data");
  const Json* content = member(*source, "content");
  if (type == "content" && content) return content_text(*content);
  return std::nullopt;
}

// The name of a part for its placeholder. The type comes from the client, so it is copied only if it is a
// plain word.
std::string name_of_type(const std::string& type) {
  if (type == "image_url" || type == "input_image") return "image";
  if (type == "input_audio") return "audio";
  const bool word =
      std::all_of(type.begin(), type.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  return word && !type.empty() && type.size() <= 32 ? type : "content";
}

// Whether the message or item is the model's.
bool is_answer(const Json& message) {
  const std::string type = string_at(message, "type");
  return string_at(message, "role") == "assistant" || type == "reasoning" || type.ends_with("_call");
}

bool has_result(const Json& message) {
  const std::string role = string_at(message, "role");
  if (role == "tool" || role == "function" || string_at(message, "type").ends_with("_output")) return true;
  const Json* content = member(message, "content");
  return content && content->is_array() && std::ranges::any_of(*content, [](const Json& block) {
           return block.is_object() && string_at(block, "type") == "tool_result";
         });
}

}  // namespace

void add_line(std::string& text, const std::string& line) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += line;
}

std::optional<std::string> readable_text(const Json& part) {
  if (!part.is_object()) return std::nullopt;
  const std::string type = string_at(part, "type");
  std::optional<std::string> text;
  if (type == "document") text = document_text(part);
  if (type == "search_result" && member(part, "content")) text = content_text(part["content"]);
  if (!text) return std::nullopt;
  std::string all;
  for (const char* heading : {"title", "source", "context"})
    if (const std::string line = string_at(part, heading); !line.empty()) add_line(all, line);
  add_line(all, *text);
  return all;
}

std::string shown_text(const Json& part) {
  if (auto text = readable_text(part)) return std::move(*text);
  const std::string type = part.is_object() ? string_at(part, "type") : "";
  if (std::string text = part.is_object() ? string_at(part, "text") : ""; !text.empty()) return text;
  if (type == "tool_reference") return fmt::format("[tool: {}]", string_at(part, "tool_name"));
  return fmt::format("[{}: not shown, this model reads text only]", name_of_type(type));
}

std::vector<bool> kept_messages(const Json& messages) {
  std::vector<bool> kept(messages.size(), true);
  size_t end = messages.size();
  // An answer at the end has begun and is to be continued; what it answers is asked now.
  while (end > 0 && messages[end - 1].is_object() && is_answer(messages[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && !(messages[begin - 1].is_object() && is_answer(messages[begin - 1]))) --begin;
  bool results = false;
  for (size_t i = begin; i < end; ++i) results |= messages[i].is_object() && has_result(messages[i]);
  std::fill(kept.begin() + static_cast<std::ptrdiff_t>(begin),
            kept.begin() + static_cast<std::ptrdiff_t>(end), results);
  return kept;
}

}  // namespace anabranch::server
