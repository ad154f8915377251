#include "chat/read_pictures.h"

#include <algorithm>

#include "images/image_key.h"
#include "images/picture.h"

namespace anabranch {
namespace {

Result<RequestImage> read_picture(const ImageInput& input, const ImageProcessor& processor) {
  TRY(const Picture picture, decode_picture(input.bytes));
  TRY(auto processed, process_image(picture, processor, input.most_pixels));
  const ImageKey key = image_key(processed);
  return RequestImage{0, key, std::make_shared<const ProcessedImage>(std::move(processed))};
}

template <class Visit>
void for_each_image(Json& message, const Visit& visit) {
  if (!message.is_object()) return;
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return;
  for (Json& part : *content)
    if (string_at(part, "type") == "image") visit(part);
}

}  // namespace

Result<std::vector<RequestImage>> read_pictures(ChatRequest& request, const ImageFormat& format,
                                                size_t most_tokens, const std::function<bool()>& cancelled) {
  std::vector<RequestImage> out;
  size_t tokens = 0;
  for (const ImageInput& input : request.images) {
    if (cancelled && cancelled()) return Error{ErrorKind::busy, "The client has left", "", "cancelled"};
    const auto same = std::ranges::find_if(request.images, [&](const ImageInput& other) {
      return other.bytes == input.bytes && other.most_pixels == input.most_pixels;
    });
    const auto place = static_cast<size_t>(same - request.images.begin());
    if (place < out.size()) {
      out.push_back(out[place]);
    } else {
      auto read = read_picture(input, format.processor);
      if (!read) return Error{ErrorKind::invalid, read.error().message, input.field};
      out.push_back(std::move(*read));
    }
    tokens += static_cast<size_t>(out.back().image->tokens);
    if (tokens > most_tokens)
      return Error{ErrorKind::exhausted, "The images have too many tokens", input.field, "", tokens};
  }
  request.images.clear();
  size_t next = 0;
  const auto name = [&](Json& part) {
    if (next < out.size())
      part["image_key"] = fmt::format("{:016x}{:016x}", out[next].key.high, out[next].key.low);
    next++;
  };
  for (Json& message : request.messages) for_each_image(message, name);
  if (next != out.size())
    return Error{
        ErrorKind::invalid,
        fmt::format("The messages have {} parts of type image, but {} images came", next, out.size()),
        "messages"};
  return out;
}

int hide_images_of_tools(Json& messages) {
  int others = 0;
  for (Json& message : messages) {
    const bool of_tool = string_at(message, "role") == "tool";
    for_each_image(message, [&](Json& part) {
      if (of_tool)
        part = {{"type", "text"}, {"text", "[image: not shown, this model reads text only]"}};
      else
        others++;
    });
  }
  return others;
}

}  // namespace anabranch
