// Records the model's output in a turn as a message of the conversation.
#pragma once

#include <string>

#include "base/json.h"
#include "output/output_parser.h"

namespace anabranch::server {

class TurnRecorder {
 public:
  // call_id: the id of a call, for the event that begins it. now: monotonic seconds.
  void event(const OutputEvent& event, const std::string& call_id, double now);
  bool empty() const { return !begun_; }
  double thinking_s() const { return thought_until_ - thought_from_; }
  // The assistant's message so far: "content", and "reasoning_content" and "tool_calls" if there are any. A
  // call's arguments are an object, or text if they are not an object. The next event begins another message.
  Json take();

 private:
  bool begun_ = false;
  double thought_from_ = 0, thought_until_ = 0;
  std::string content_, reasoning_, arguments_;
  Json calls_ = Json::array();
};

}  // namespace anabranch::server
