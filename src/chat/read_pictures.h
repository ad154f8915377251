// The pictures of a chat as the model takes them.
#pragma once

#include <functional>
#include <vector>

#include "chat/chat_request.h"

namespace anabranch {

// Makes the pictures of a request what the model takes: decoded, resized, and named by their keys, which
// their parts of the messages get as "image_key". The prompt's places are not known yet
// (RequestImage::begin). Errors: what is wrong with which picture; that there are more pictures than parts,
// or the other way round; exhausted, with Error::needed, once they have more than most_tokens
// together.
Result<std::vector<RequestImage>> read_pictures(ChatRequest& request, const ImageFormat& format,
                                                size_t most_tokens, const std::function<bool()>& cancelled);

// For models that read text only: puts a few words in place of the images in results of tools, since agents
// send these again with every later turn. Returns how many other images there are.
int hide_images_of_tools(Json& messages);

}  // namespace anabranch
