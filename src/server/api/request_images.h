// Images in requests. The parsers note each image beside the text of its message, and sessions store it like
// this:
//   {"role": "user", "content": "What is this?",
//    "images": [{"at": 0, "url": "data:image/png;base64,...", "detail": "low"}]}
// `at` bytes of the content stand before the image. take_images() converts this to the format that chat
// templates take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "chat/image_input.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

inline constexpr size_t kMaxImages = 64;                 // images in one prompt
inline constexpr size_t kMaxImagesToShorten = 1024;      // images in a request of which turns may be left out
inline constexpr size_t kMaxImageBytes = 20u << 20;      // file of one image
inline constexpr size_t kMaxAllImageBytes = 128u << 20;  // all images of a request and its conversation
inline constexpr int64_t kLowDetailPixels = 512 * 512;   // of an image with "detail": "low"

// Gets the file at a web address, up to a limit of bytes. Errors say what to do.
using ImageFetch = std::function<Result<std::string>(const std::string& url, size_t bytes)>;

// Notes the images of one request. An image that cannot be taken fails in the fields.
class ImageReader {
 public:
  // fetch: for web addresses; empty: they are refused. It must outlive the reader. in_results: see below; if
  // it is false, nothing is fetched. most: limit of images in the request; kMaxImages of those may be
  // fetched.
  ImageReader(const ImageFetch& fetch, bool in_results, size_t most = kMaxImages)
      : fetch_(fetch), in_results_(in_results), most_(most) {}

  // Whether images in results of tools are taken. They become placeholders for models that read text only:
  // agents send them again with every later turn, so refusing one would end the conversation.
  bool in_results() const { return in_results_; }
  // From here on, images are those of a kept message (content_parts.h), or not. In a kept one, an image that
  // cannot be fetched becomes a placeholder.
  void set_kept(bool kept) { kept_ = kept; }

  // Adds an image to the message. url: a data URL or a web address. detail: null: not given. field: the
  // image's path in the request.
  void add(JsonFields& fields, const std::string& field, const std::string& url, const Json* detail,
           Json& message);
  void add_base64(JsonFields& fields, const std::string& field, const std::string& media_type,
                  const std::string& base64, Json& message);
  // Adds the image of a part {"image_url": {"url", "detail"}} (chat completions) or {"image_url": URL,
  // "detail"} (Responses).
  void add_part(JsonFields& fields, const std::string& field, const Json& part, Json& message);

 private:
  ApiResult<std::string> fetched(const std::string& field, const std::string& url);
  void note(JsonFields& fields, const std::string& field, std::string url, const Json* detail, Json& message);

  const ImageFetch& fetch_;
  const bool in_results_;
  const size_t most_;
  bool kept_ = false;
  size_t count_ = 0, fetched_count_ = 0;
  size_t fetched_bytes_ = 0;
};

// Adds a text to the message's content, on a new line unless an image is right before it.
void add_line_to(Json& message, const std::string& line);

// Moves the noted images to `images`, in order. Contents with images become lists of the parts {"type":
// "text", "text"} and {"type": "image"}. Fails for data that is not an image. field: named in errors about
// images of earlier requests.
void take_images(JsonFields& fields, const char* field, Json& messages, std::vector<ImageInput>& images);
// Visits the parts of a stored message, in order. Image places outside the text are moved into it.
void for_each_part(const Json& kept, const std::function<void(std::string text)>& on_text,
                   const std::function<void(const Json& image)>& on_image);
// Replaces the noted images of a stored message by placeholders, for models that read text only.
void hide_images(Json& message);
// The number of parts {"type": "image"} in the messages.
size_t count_images(const Json& messages);
// The first turn (user message, counted from 0) from which on the noted images are within a prompt's limits
// of number and bytes; the last turn if they never are. 0: all images are within the limits.
size_t first_turn_within_limits(const Json& messages);
// Removes fields that only error messages need from a message that is to be stored.
void drop_image_fields(Json& message);

}  // namespace anabranch::server
