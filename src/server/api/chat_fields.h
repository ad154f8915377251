// The fields of a chat in OpenAI's format, which Ollama's API shares, and the messages that templates take,
// into which every API's messages are read.
#pragma once

#include "chat/chat_request.h"
#include "server/api/chat_tools.h"
#include "server/api/json_fields.h"
#include "server/api/request_images.h"

namespace anabranch::server {

// Converts one of OpenAI's messages to the format that templates take; its images are noted
// (request_images.h). index: its position among the messages. kept: see kept_messages().
Json read_message(JsonFields& request, const Json& message, size_t index, bool kept, ImageReader& images);
// Reads the parts of a chat other than options and messages: tools, template arguments, whether the last
// message is continued, and the noted images. custom: see read_chat_tools().
ApiResult<ChatRequest> finish_chat(JsonFields& fields, ChatRequest request, CustomTools* custom = nullptr);

}  // namespace anabranch::server
