#include "chat/message_text.h"

namespace anabranch {
namespace {

Json parts_of(const Json& content) {
  if (content.is_array()) return content;
  Json parts = Json::array();
  if (content.is_string() && content != "") parts.push_back({{"type", "text"}, {"text", content}});
  return parts;
}

}  // namespace

std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array())
    for (const Json& part : content) text += string_at(part, "text");
  return text;
}

bool is_text_part(const Json& part) {
  return part.is_object() && part.contains("text") && part["text"].is_string();
}

void append_content(Json& content, const Json& more, const std::string& between) {
  if (content.is_string() && more.is_string()) {  // in place: thousands of texts may become one
    auto& text = content.get_ref<std::string&>();
    const auto& second = more.get_ref<const std::string&>();
    if (!text.empty() && !second.empty()) text += between;
    text += second;
    return;
  }
  if (!content.is_array() && !more.is_array()) {
    const std::string first = text_of(content), second = text_of(more);
    content = first.empty() || second.empty() ? first + second : first + between + second;
    return;
  }
  Json parts = content.is_array() ? std::move(content) : parts_of(content), others = parts_of(more);
  if (parts.empty() || others.empty()) {
    content = parts.empty() ? std::move(others) : std::move(parts);
    return;
  }
  if (!is_text_part(parts.back())) parts.push_back({{"type", "text"}, {"text", ""}});
  auto& text = parts.back()["text"].get_ref<std::string&>();
  text += between;
  size_t next = 0;
  if (is_text_part(others[0])) text += others[next++]["text"].get_ref<const std::string&>();
  if (text.empty()) parts.erase(parts.size() - 1);
  for (; next < others.size(); next++) parts.push_back(std::move(others[next]));
  content = std::move(parts);
}

}  // namespace anabranch
