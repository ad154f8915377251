#include "cli/image_files.h"

#include <utility>

#include "base/base64.h"
#include "base/mapped_file.h"
#include "server/api/request_images.h"

namespace anabranch::cli {
namespace {

// The media type by the file's first bytes; empty: unknown.
std::string media_type(std::string_view bytes) {
  constexpr std::pair<std::string_view, const char*> kKinds[] = {{"\x89PNG\r\n\x1a\n", "image/png"},
                                                                 {"\xff\xd8\xff", "image/jpeg"}};
  for (const auto& [start, type] : kKinds)
    if (bytes.starts_with(start)) return type;
  return bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP") ? "image/webp" : "";
}

Json part_of(const std::string& url) {
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

}  // namespace

Result<Json> image_part(const std::string& path) {
  TRY(const std::string bytes, read_file(path, server::kMaxImageBytes));
  const std::string type = media_type(bytes);
  if (type.empty())
    return make_error(ErrorKind::invalid, "{} is no image of a known kind: PNG, JPEG or WebP", path);
  return part_of("data:" + type + ";base64," + to_base64(bytes));
}

Result<std::vector<Json>> image_parts(const std::vector<std::string>& paths) {
  std::vector<Json> parts;
  for (const std::string& path : paths) {
    TRY(Json part, image_part(path));
    parts.push_back(std::move(part));
  }
  return parts;
}

Json user_message(const std::string& text, const std::vector<Json>& images) {
  if (images.empty()) return {{"role", "user"}, {"content", text}};
  Json content = images;
  content.push_back({{"type", "text"}, {"text", text}});
  return {{"role", "user"}, {"content", std::move(content)}};
}

Json kept_message(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return message;
  Json kept = message;
  std::string text;
  for (const Json& part : *content) {
    text += string_at(part, "text");
    if (string_at(part, "type") == "image_url")
      kept["images"].push_back({{"at", text.size()}, {"url", part["image_url"]["url"]}});
  }
  kept["content"] = std::move(text);
  return kept;
}

Json chat_message(const Json& kept) {
  const auto images = kept.find("images");
  if (images == kept.end() || !images->is_array()) return kept;
  Json content = Json::array();
  server::for_each_part(
      kept,
      [&](std::string text) {
        content.push_back({{"type", "text"}, {"text", std::move(text)}});
      },
      [&](const Json& image) {
        content.push_back(part_of(string_at(image, "url")));
        if (image.contains("detail")) content.back()["image_url"]["detail"] = image["detail"];
      });
  Json message = kept;
  message.erase("images");
  message["content"] = std::move(content);
  return message;
}

}  // namespace anabranch::cli
