#include "chat/read_pictures.h"

#include "images/image_key.h"
#include "images/picture.h"

namespace anabranch {
namespace {

RequestError fault(ErrorKind kind, std::string message, std::string field) {
  return {{kind, std::move(message)}, std::move(field), ""};
}

template <class Visit>
void for_each_image(Json& messages, const Visit& visit) {
  for (Json& message : messages) {
    const auto content = message.is_object() ? message.find("content") : message.end();
    if (!message.is_object() || content == message.end() || !content->is_array()) continue;
    for (Json& part : *content)
      if (string_at(part, "type") == "image") visit(part);
  }
}

}  // namespace

std::variant<std::vector<RequestImage>, RequestError> read_pictures(ChatRequest& request,
                                                                    const ImageFormat& format,
                                                                    const std::function<bool()>& cancelled) {
  std::vector<RequestImage> out;
  for (ImageInput& input : request.images) {
    if (cancelled && cancelled()) return fault(ErrorKind::busy, "The client has left", "");
    const auto picture = decode_picture(input.bytes);
    input.bytes = std::string();
    if (!picture) return fault(ErrorKind::invalid, picture.error().message, input.field);
    auto processed = process_image(*picture, format.processor, input.most_pixels);
    if (!processed) return fault(ErrorKind::invalid, processed.error().message, input.field);
    const ImageKey key = image_key(*processed);
    out.push_back({0, key, std::make_shared<const ProcessedImage>(std::move(*processed))});
  }
  size_t next = 0;
  for_each_image(request.messages, [&](Json& part) {
    if (next < out.size()) part["image_key"] = fmt::format("{:016x}{:016x}", out[next].key.high, out[next].key.low);
    next++;
  });
  if (next != out.size())
    return fault(ErrorKind::invalid,
                 fmt::format("The messages have {} parts of type image, but {} images came", next, out.size()),
                 "messages");
  return out;
}

}  // namespace anabranch
