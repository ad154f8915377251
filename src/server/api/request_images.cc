#include "server/api/request_images.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/base64.h"
#include "base/lower_case.h"
#include "server/api/content_parts.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostFetchedBytes = kMaxImageBytes;  // for all fetched images of a request together
constexpr size_t kMostHeadBytes = 256;                // part of a data URL before the data

ApiError image_error(const std::string& field, const char* code, const std::string& message) {
  return {400, fmt::format("'{}': {}", field, message), field, code};
}

bool is_web_address(std::string_view url) {
  const std::string scheme = lower_case(url.substr(0, 8));
  return scheme.starts_with("http://") || scheme.starts_with("https://");
}

// The data in "data:image/TYPE;base64,DATA".
Result<std::string_view> data_of(std::string_view url) {
  const std::string head = lower_case(url.substr(0, std::min(kMostHeadBytes, url.find(','))));
  if (!head.starts_with("data:"))
    return make_error(ErrorKind::invalid, "an image must be a data URL: data:image/png;base64,...");
  if (!head.starts_with("data:image/"))
    return make_error(ErrorKind::invalid, "the data URL is not of an image: its type must begin with image/");
  if (!head.ends_with(";base64") || head.size() == url.size())
    return make_error(ErrorKind::invalid, "the data URL must be in base64: data:image/png;base64,...");
  return url.substr(head.size() + 1);
}

Result<std::string> decoded(std::string_view url) {
  TRY(const auto data, data_of(url));
  if (data.size() > (kMaxImageBytes + 2) / 3 * 4)
    return make_error(ErrorKind::exhausted, "the image has more than {} MiB", kMaxImageBytes >> 20);
  TRY(auto bytes, from_base64(data));
  if (bytes.empty()) return make_error(ErrorKind::invalid, "the image is empty");
  if (bytes.size() > kMaxImageBytes)
    return make_error(ErrorKind::exhausted, "the image has more than {} MiB", kMaxImageBytes >> 20);
  return bytes;
}

ApiError too_many(const std::string& field, size_t most) {
  return image_error(field, "limit_exceeded", fmt::format("a request may have {} images", most));
}

// The URL of a noted image; empty: it has none.
std::string_view url_of(const Json& image) {
  const auto url = image.find("url");
  if (url == image.end() || !url->is_string()) return {};
  return url->get_ref<const std::string&>();
}

// Moves the images of one message.
class MessageImages {
 public:
  MessageImages(Json& message, const std::string& field) : message_(message), field_(field) {
    content_.swap(message["content"].get_ref<std::string&>());
  }

  void take(JsonFields& fields, Json& noted, std::vector<ImageInput>& images) {
    for (Json& image : noted) {
      const std::string own = string_at(image, "field");
      const std::string& field = own.empty() ? field_ : own;
      if (images.size() == kMaxImages)
        return fields.fail(image_error(field, "limit_exceeded",
                                       fmt::format("a request may have {} images with those of its "
                                                   "conversation, and this is one more",
                                                   kMaxImages)));
      if (!take_text(image))
        return fields.fail(image_error(field, "invalid_value", "its place is not valid"));
      auto bytes = decoded(url_of(image));
      if (!bytes.ok()) {
        ApiError error = bytes.error();
        return fields.fail(image_error(field, error.code.c_str(), error.message));
      }
      const bool low = string_at(image, "detail") == "low";
      images.push_back({std::move(*bytes), low ? std::optional(kLowDetailPixels) : std::nullopt, field});
      parts_.push_back({{"type", "image"}});
      image = nullptr;
    }
    add_text(content_.size());
    message_["content"] = std::move(parts_);
    message_.erase("images");
  }

 private:
  // Takes the text before the image. False: the image's place is not between two characters of the remaining
  // text.
  bool take_text(const Json& image) {
    const auto at = image.is_object() ? image.find("at") : image.end();
    if (at == image.end() || !at->is_number_unsigned()) return false;
    const auto end = at->get<uint64_t>();
    if (end < begin_ || end > content_.size()) return false;
    if (end < content_.size() && (static_cast<unsigned char>(content_[end]) & 0xC0) == 0x80) return false;
    add_text(end);
    return true;
  }

  void add_text(size_t end) {
    if (end > begin_) parts_.push_back({{"type", "text"}, {"text", content_.substr(begin_, end - begin_)}});
    begin_ = end;
  }

  Json& message_;
  const std::string field_;
  std::string content_;
  size_t begin_ = 0;  // beginning of the remaining text
  Json parts_ = Json::array();
};

const Json* noted_images(const Json& message) {
  const auto images = message.is_object() ? message.find("images") : message.end();
  return images == message.end() || !images->is_array() || images->empty() ? nullptr : &*images;
}

}  // namespace

void ImageReader::note(JsonFields& fields, const std::string& field, std::string url, const Json* detail,
                       Json& message) {
  const char* const details[] = {"auto", "low", "high", "original"};
  if (detail && std::ranges::find(details, *detail) == std::end(details))
    return fields.fail(image_error(field, "invalid_value", "'detail' must be low, high, original or auto"));
  if (count_ == most_) return fields.fail(too_many(field, most_));
  count_++;
  Json image = {{"at", message["content"].get_ref<const std::string&>().size()}, {"url", std::move(url)}};
  if (detail) image["detail"] = *detail;
  image["field"] = field;
  message["images"].push_back(std::move(image));
}

// A data URL of the file at a web address.
ApiResult<std::string> ImageReader::fetched(const std::string& field, const std::string& url) {
  if (!fetch_)
    return image_error(field, "unsupported_value",
                       "this server fetches no images from the web: send the image itself "
                       "(data:image/png;base64,...), or start the server with --allow-image-urls HOST");
  if (!in_results_)  // the model would not see it
    return image_error(field, "images_unsupported", "this model cannot read images: send text only");
  if (count_ == most_) return too_many(field, most_);
  if (fetched_count_ == kMaxImages) return too_many(field, kMaxImages);
  fetched_count_++;
  auto file = fetch_(url, kMostFetchedBytes - fetched_bytes_);
  if (!file.ok())
    return image_error(field, "image_not_fetched",
                       fmt::format("the image could not be fetched: {}", file.error().message));
  fetched_bytes_ += file->size();
  return "data:image/*;base64," + to_base64(*file);
}

void ImageReader::add(JsonFields& fields, const std::string& field, const std::string& url,
                      const Json* detail, Json& message) {
  if (fields.error()) return;
  ApiResult<std::string> file = is_web_address(url) ? fetched(field, url) : url;
  if (file) return note(fields, field, std::move(*file), detail, message);
  if (kept_ && file.error().code != "limit_exceeded")
    add_line_to(message, "[image: it could not be fetched]");
  else
    fields.fail(file.error());
}

void ImageReader::add_base64(JsonFields& fields, const std::string& field, const std::string& media_type,
                             const std::string& base64, Json& message) {
  if (fields.error()) return;
  note(fields, field, fmt::format("data:{};base64,{}", media_type, base64), nullptr, message);
}

void ImageReader::add_part(JsonFields& fields, const std::string& field, const Json& part, Json& message) {
  const auto given = part.find("image_url");
  const auto url = given == part.end() || !given->is_object() ? given : given->find("url");
  const bool there = given != part.end() && !(given->is_object() && url == given->end());
  if (!there || !url->is_string())
    return fields.fail(image_error(field + ".image_url",
                                   there ? "invalid_type" : "missing_required_parameter",
                                   "it must be {\"url\": \"data:image/png;base64,...\"}"));
  const Json* detail = JsonFields(given->is_object() ? *given : part).find("detail");
  add(fields, field, url->get_ref<const std::string&>(), detail, message);
}

void add_line_to(Json& message, const std::string& line) {
  const Json* images = noted_images(message);
  auto& content = message["content"].get_ref<std::string&>();
  if (images && images->back()["at"] == content.size())
    content += line;
  else
    add_line(content, line);
}

size_t count_images(const Json& messages) {
  size_t count = 0;
  for (const Json& message : messages)
    if (const Json& content = message["content"]; content.is_array())
      count += static_cast<size_t>(std::ranges::count_if(
          content, [](const Json& part) { return string_at(part, "type") == "image"; }));
  return count;
}

void take_images(JsonFields& fields, const char* field, Json& messages, std::vector<ImageInput>& images) {
  for (Json& message : messages) {
    if (!noted_images(message) || fields.error()) continue;
    Json noted = std::move(message["images"]);
    MessageImages(message, field).take(fields, noted, images);
    size_t bytes = 0;
    for (const ImageInput& image : images) bytes += image.bytes.size();
    if (bytes > kMaxAllImageBytes)
      fields.fail(image_error(images.back().field, "limit_exceeded",
                              fmt::format("the images of the request and its conversation have more than {} "
                                          "MiB together",
                                          kMaxAllImageBytes >> 20)));
  }
}

void for_each_part(const Json& kept, const std::function<void(std::string text)>& on_text,
                   const std::function<void(const Json& image)>& on_image) {
  const std::string text = string_at(kept, "content");
  size_t begin = 0;
  const auto text_until = [&](size_t end) {
    if (end > begin) on_text(text.substr(begin, end - begin));
    begin = std::max(begin, end);
  };
  for (const Json& image : kept.value("images", Json::array())) {
    text_until(std::min(image.value("at", begin), text.size()));
    on_image(image);
  }
  text_until(text.size());
}

void hide_images(Json& message) {
  if (!noted_images(message)) return;
  std::string shown;
  for_each_part(
      message, [&](const std::string& text) { shown += text; },
      [&](const Json&) {
        shown += shown_text({{"type", "image"}});
      });
  message["content"] = std::move(shown);
  message.erase("images");
}

size_t first_turn_within_limits(const Json& messages) {
  const auto is_turn = [](const Json& message) { return message["role"] == "user"; };
  const auto turns = static_cast<size_t>(std::ranges::count_if(messages, is_turn));
  size_t first = turns, images = 0, bytes = 0;
  for (size_t at = messages.size(); at-- > 0;) {
    if (const Json* noted = noted_images(messages[at]))
      for (const Json& image : *noted) {
        const std::string_view url = url_of(image), data = url.substr(url.find(',') + 1);  // npos + 1 is 0
        images++;
        bytes += (data.find_last_not_of('=') + 1) * 3 / 4;
      }
    if (images > kMaxImages || bytes > kMaxAllImageBytes) return turns == 0 ? 0 : std::min(first, turns - 1);
    if (is_turn(messages[at])) first--;
  }
  return 0;
}

void drop_image_fields(Json& message) {
  if (noted_images(message))
    for (Json& image : message["images"])
      if (image.is_object()) image.erase("field");
}

}  // namespace anabranch::server
