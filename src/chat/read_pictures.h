// The pictures of a chat as the model takes them.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "chat/chat_request.h"

namespace anabranch {

// Makes the pictures of a request what the model takes: decoded, resized, and named by their keys, which their
// parts of the messages get as "image_key". The prompt's places are not known yet (RequestImage::begin).
// Errors: what is wrong with which picture; that there are more pictures than parts, or the other way round.
std::variant<std::vector<RequestImage>, RequestError> read_pictures(ChatRequest& request,
                                                                    const ImageFormat& format,
                                                                    const std::function<bool()>& cancelled);

}  // namespace anabranch
