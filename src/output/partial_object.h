// The arguments of a JSON call while they arrive: how much of them is certain.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_text.h"

namespace anabranch {

// Reads an object in JSON. A member is certain when its value is complete; a string that is a member's value,
// character by character. Reading stops at the first thing that is not JSON.
class PartialObject {
 public:
  // begin: where the object begins, in the texts for advance().
  explicit PartialObject(size_t begin) : begin_(begin), at_(begin), certain_(begin) {}
  // text: all of it so far.
  void advance(std::string_view text);
  size_t begin() const { return begin_; }
  // The end of what is certain; begin() if nothing is.
  size_t certain() const { return certain_; }
  // A short object that may go on as this one does from certain() on.
  std::string_view stub() const;

 private:
  enum class Part { open, key, key_text, colon, value, text, nested, literal, after_value, stopped };
  // Reads something. False: it needs more text.
  bool step(std::string_view text);
  bool string_step(std::string_view text, Part next);
  // Ends a value that is neither a string nor certain to be JSON.
  void end_value(std::string_view text);

  size_t begin_, at_, certain_;
  size_t value_ = 0;  // where the value begins
  Part part_ = Part::open;
  bool in_text_ = false;  // certain_ is inside a string
  JsonScan nested_;
};

// {"name": "NAME", "arguments": { with other members before it whose values are strings, perhaps all of it in
// {"function": {
struct JsonCallHead {
  Scan scan = Scan::more;  // more: the text may go on to be one. broken: it is something else.
  std::string name;
  size_t arguments = 0;  // where the object begins
};
JsonCallHead read_call_head(std::string_view text);

// Closes an object that was cut off behind a member or inside a string that is a member's value.
std::string closed_object(std::string text);

}  // namespace anabranch
