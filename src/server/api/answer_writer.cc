#include "server/api/answer_writer.h"

namespace anabranch::server {

Json extension(const AnswerHead& head, const Usage& usage) {
  Json json = Json::object();
  if (head.thinking)
    json["thinking"] = {{"enabled", head.thinking->enabled}, {"reason", head.thinking->reason}};
  json["cut"] = usage.cut.empty() ? Json(nullptr) : Json(usage.cut);
  return json;
}

std::string data_event(const Json& json) {
  return "data: " + dump_json(json) + "\n\n";
}

std::string_view finish_name(FinishReason finish, int calls) {
  if (finish == FinishReason::length) return "length";
  if (finish == FinishReason::cancelled) return "cancelled";
  return calls > 0 ? "tool_calls" : "stop";
}

}  // namespace anabranch::server
