// Parses server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) from bytes as
// they arrive.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace anabranch {

class EventStream {
 public:
  // on_data: receives the data of each event; comments and other fields are ignored.
  explicit EventStream(std::function<void(const std::string& data)> on_data,
                       size_t max_event_bytes = 16 << 20)
      : on_data_(std::move(on_data)), max_event_bytes_(max_event_bytes) {}
  // False once an event is longer than max_event_bytes.
  bool push(std::string_view bytes);

 private:
  void take_line(std::string_view line);

  std::function<void(const std::string&)> on_data_;
  size_t max_event_bytes_;
  std::string line_, data_;
  bool has_data_ = false, after_cr_ = false;
};

}  // namespace anabranch
