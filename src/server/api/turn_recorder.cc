#include "server/api/turn_recorder.h"

#include <utility>

namespace anabranch::server {

using Kind = OutputEvent::Kind;

void TurnRecorder::event(const OutputEvent& event, const std::string& call_id, double now) {
  begun_ = true;
  if (event.kind == Kind::reasoning) {
    if (thought_from_ == 0) thought_from_ = now;
    thought_until_ = now;
    reasoning_ += event.text;
  } else if (event.kind == Kind::content) {
    content_ += event.text;
  } else if (event.kind == Kind::call_begin) {
    arguments_.clear();
    calls_.push_back({{"id", call_id}, {"type", "function"}, {"function", {{"name", event.text}}}});
  } else if (event.kind == Kind::call_arguments) {
    arguments_ += event.text;
  } else if (event.kind == Kind::call_end && !calls_.empty()) {
    auto parsed = parse_json(arguments_);
    calls_.back()["function"]["arguments"] =
        parsed && parsed->is_object() ? std::move(*parsed) : Json(arguments_);
  }
}

Json TurnRecorder::take() {
  // A call that was cut off in the middle is left out.
  if (!calls_.empty() && !calls_.back()["function"].contains("arguments")) calls_.erase(calls_.size() - 1);
  Json message = {{"role", "assistant"}, {"content", std::exchange(content_, {})}};
  if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
  if (!calls_.empty()) message["tool_calls"] = std::exchange(calls_, Json::array());
  begun_ = false;
  thought_from_ = thought_until_ = 0;
  return message;
}

}  // namespace anabranch::server
