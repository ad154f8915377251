// The calls of one value in JSON, an object or a list, while they arrive.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "output/partial_object.h"
#include "output/tool_call.h"

namespace anabranch {

// So many bytes of its arguments are certain before a call begins. A short call that is broken is thus text.
inline constexpr size_t kHeldBytes = 64;

// A call whose arguments are an object in JSON.
class PartialCall {
 public:
  // begin: where the arguments begin.
  PartialCall(std::string name, size_t begin) : sent_{std::move(name), ""}, object_(begin) {}
  // text: all of it so far.
  void advance(std::string_view text);
  // What is certain of the call.
  const ToolCall& sent() const { return sent_; }
  bool has_begun() const { return sent_.arguments.size() >= kHeldBytes; }
  const PartialObject& object() const { return object_; }
  // call: what was read of a text with the stub of the object in place of what is certain. Puts that back.
  // False: it is another call.
  bool join(ToolCall& call) const;

 private:
  ToolCall sent_;
  PartialObject object_;
};

class CallList {
 public:
  // begin: where the value begins. streams: calls may begin before they are complete. only_offered: what
  // names no tool is no call.
  CallList(const Json& tools, size_t begin, bool streams, bool only_offered)
      : tools_(&tools), begin_(begin), at_(begin), reads_(streams), only_offered_(only_offered) {}
  // text: all of it so far. Calls are certain while it is right JSON.
  void advance(std::string_view text);
  // Where the last value of the list begins that is not complete yet; nullopt: none is read.
  std::optional<size_t> element() const { return inside_ ? std::optional(element_) : std::nullopt; }
  // Whether a call has begun.
  bool has_begun() const { return open_ >= 0; }
  // The call that has begun and was not taken; null: none.
  const PartialCall* begun() const { return open_ < ended_ ? nullptr : &*at(open_).partial; }
  // The whole calls up to the last one that has begun, without those that were taken already.
  std::vector<ToolCall> take_ended();
  // What of the text up to `end` is to be read as calls: instead of what is certain of calls that have begun,
  // a stub of it.
  std::string unsent(std::string_view text, size_t end) const { return unsent(text, begin_, end); }
  // calls: all that were read of unsent(). Leaves those that take_ended() did not return, whole. False: they
  // are not the calls that have begun.
  bool join(std::vector<ToolCall>& calls) const;

 private:
  struct Element {
    std::optional<PartialCall> partial;  // none: its arguments are not read before it is complete
    bool late = false;                   // partial remains none
    ToolCall whole;                      // when it is complete
  };
  const Element& at(int i) const { return elements_[static_cast<size_t>(i)]; }
  // Each returns whether there is more to read.
  bool find_element(std::string_view text);
  bool read_element(std::string_view text);
  bool take_element(std::string_view text);
  std::string unsent(std::string_view text, size_t from, size_t end) const;

  const Json* tools_;
  size_t begin_, at_;
  bool reads_, only_offered_;
  bool inside_ = false;  // the last of elements_ is not whole
  size_t element_ = 0;   // where it begins
  JsonScan scan_;
  std::vector<Element> elements_;
  int open_ = -1;  // the last call that has begun
  int ended_ = 0;  // calls that were taken
};

}  // namespace anabranch
