// Parses a request's body and has it prepared for the engine by chat/preparer.h.
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "chat/preparer.h"
#include "server/api/api_request.h"
#include "server/api/openai_format.h"

namespace anabranch::server {

ApiError to_api_error(const RequestError& error);

// cancelled: as of Preparer.
std::variant<Prepared, ApiError> prepare(AnswerKind kind, std::string_view body,
                                         const RequestDefaults& defaults, Preparer& preparer,
                                         const std::function<bool()>& cancelled);

}  // namespace anabranch::server
