// Prepares the pictures of a chat for the model.
#pragma once

#include <functional>
#include <vector>

#include "chat/chat_request.h"

namespace anabranch {

// Decodes and resizes the pictures of a request, and names them by their keys, which are stored as
// "image_key" in the messages' parts. Their places in the prompt are not known yet (RequestImage::begin).
// Errors: a picture that is invalid; more pictures than parts, or fewer; exhausted, with Error::needed, once
// they have more than most_tokens together.
Result<std::vector<RequestImage>> read_pictures(ChatRequest& request, const ImageFormat& format,
                                                size_t most_tokens, const std::function<bool()>& cancelled);

// For models that read text only: replaces the images in tool results with a few words, because agents send
// them again with every later turn. Returns the number of other images.
int hide_images_of_tools(Json& messages);

}  // namespace anabranch
