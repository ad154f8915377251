// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) out of bytes as they
// come.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace anabranch::hub {

class EventStream {
 public:
  // on_data: takes the data of each event; comments and other fields are left out.
  explicit EventStream(std::function<void(const std::string& data)> on_data) : on_data_(std::move(on_data)) {}
  // False once an event is longer than kMaxEventBytes.
  bool push(std::string_view bytes);

  static constexpr size_t kMaxEventBytes = 16 << 20;

 private:
  void take_line(std::string_view line);

  std::function<void(const std::string&)> on_data_;
  std::string line_, data_;
  bool has_data_ = false, after_cr_ = false;
};

}  // namespace anabranch::hub
