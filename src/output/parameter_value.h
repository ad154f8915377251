// Finds the end of the value between <parameter=KEY> and </parameter>, as it arrives.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/json_text.h"

namespace anabranch {

// How a text ends: not yet, by the model, or by something else.
enum class TextEnd { none, by_model, cut };

// The value may itself contain tags. It ends at the first </parameter> after which a parameter or a closing
// tag follows, but not at one of a whole call that the value contains.
//
// Models forget that tag, or mangle it. So a value also ends where a line begins with another parameter that
// the call may have; and if no </parameter> ends it, where a line begins with </function> or </tool_call>. A
// line before these that is nearly </parameter> is dropped. A grammar makes no such slips.
class ValueScan {
 public:
  // begin: where the value begins, in the texts for advance(). exact: it ends at the first line that is
  // </parameter>, and only there.
  ValueScan(size_t begin, bool exact) : exact_(exact), begin_(begin), at_(begin) {}
  // Tags before `end` are part of the value.
  void skip(size_t end) { at_ = end; }
  // text: all of it so far. expected: whether the call may have the parameter KEY and does not have it yet.
  Scan advance(std::string_view text, TextEnd end, const std::function<bool(std::string_view)>& expected);
  // Before `complete`: the part of the value that is certain, whatever follows.
  std::string_view certain(std::string_view text) const;
  // After `complete`: the value without the line breaks that the template writes around it.
  std::string_view value(std::string_view text) const;
  // After `complete`: where the next tag or white space begins.
  size_t next() const { return end_.next; }

 private:
  struct End {
    size_t at, next;
  };
  // Each looks at one tag that begins at at_. Broken: the value goes on, and at_ is after the tag.
  Scan tag(const std::function<bool(std::string_view)>& expected);
  Scan closer();
  Scan own_line();
  Scan function();
  Scan parameter(const std::function<bool(std::string_view)>& expected);
  Scan settle();
  bool begins_line() const { return at_ > 0 && text_[at_ - 1] == '\n'; }
  // The name at `at` and its '>'. Complete: name_end_ is at the '>'.
  Scan name(size_t at);
  Scan pass(size_t bytes, Scan result = Scan::broken) {
    at_ += bytes;
    return result;
  }

  std::string_view text_;
  TextEnd text_end_ = TextEnd::none;
  bool exact_;
  size_t begin_, at_;
  size_t look_ = 0;           // there is only white space from the closing tag at at_ up to here
  size_t name_end_ = 0;       // see name()
  int depth_ = 0;             // of calls inside the value
  std::optional<End> inner_;  // the first </parameter> inside a call in the value
  std::optional<End> line_;   // the first line that begins with another closing tag
  End end_{};
};

}  // namespace anabranch
