#include "server/http/access_log.h"

#include <cmath>

#include "base/clock.h"
#include "base/json.h"

namespace anabranch::server {
namespace {

Json null_if_empty(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

std::string access_line(const EndedRequest& request) {
  // The members are in this order for human readers.
  Json line = {{"time", rfc3339(unix_nanoseconds())},
               {"request_id", request.name.id},
               {"address", request.address},
               {"key", null_if_empty(request.key)},
               {"method", null_if_empty(request.name.method)},
               {"path", request.path},
               {"status", request.status ? Json(request.status) : Json()},
               {"seconds", std::round(request.seconds * 1e6) / 1e6},
               {"cut_off", request.cut_off}};
  if (!request.name.session.empty()) line["session_id"] = request.name.session;
  if (request.note && request.note->given()) {
    line["model"] = request.note->model;
    line["prompt_tokens"] = request.note->prompt_tokens;
    line["cached_tokens"] = request.note->cached_tokens;
    line["completion_tokens"] = request.note->completion_tokens;
  }
  return dump_json(line);
}

}  // namespace anabranch::server
