// Gemma's notation for arguments: {key:value,...} with bare keys, and special marks around strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "output/lenient_json.h"

namespace anabranch {

// The marks of one of the formats of Gemma models.
struct GemmaMarks {
  std::string_view quote, call_end;
};

// Like JsonScan, for an object in this notation.
class GemmaScan {
 public:
  explicit GemmaScan(const GemmaMarks& marks) : marks_(marks) {}
  // end: nothing follows the text.
  Scan advance(std::string_view text, size_t& at, bool end);
  struct Text {
    size_t begin;
    std::optional<size_t> end;
  };
  // A member of the whole object. text: of its value if that is a string in marks. end: where its comma is.
  struct Member {
    std::optional<Text> text;
    std::optional<size_t> end;
  };
  // All members so far; the last one is not complete.
  const std::vector<Member>& members() const { return members_; }

 private:
  void cross_mark(size_t at);
  // Takes a byte outside strings that is no bracket.
  void take(char c, size_t at);
  // Looks whether the apostrophe at `at` begins a string. Complete: look_ is after the string. Broken: it is
  // text.
  Scan apostrophe(std::string_view text, size_t at, bool end);

  GemmaMarks marks_;
  std::string open_;
  StringScan string_;
  size_t look_ = 0;
  bool in_quote_ = false;
  bool fresh_ = true;  // a value or key may begin here
  std::vector<Member> members_{1};
  int colons_ = 0;  // of the last member
};

// The arguments of a call while they arrive.
class GemmaArguments {
 public:
  // tools: OpenAI's array; must outlive this. begin: where the object begins, in the texts for advance().
  GemmaArguments(const Json& tools, std::string tool, const GemmaMarks& marks, size_t begin)
      : tools_(&tools), tool_(std::move(tool)), marks_(marks), scan_(marks), begin_(begin + 1) {}
  // As GemmaScan's.
  Scan advance(std::string_view text, size_t& at, bool end) { return scan_.advance(text, at, end); }
  // Adds to `sent` what of json() has become certain of the text before `at`: whole members, and of the last
  // one its text in marks.
  void send(std::string_view text, size_t at, std::string& sent);
  // The JSON of a whole object.
  std::optional<std::string> json(std::string_view object) const;

 private:
  // False: the member cannot be read.
  bool send_member(std::string_view member, std::string& sent);
  void send_text(std::string_view text, const GemmaScan::Text& value, size_t at, std::string& sent);
  // The beginning of a member up to its text in marks, as JSON without the text; "": it is no text.
  std::string text_head(std::string_view member) const;

  const Json* tools_;
  std::string tool_;
  GemmaMarks marks_;
  GemmaScan scan_;
  size_t begin_;        // of the first member that is not sent whole
  size_t member_ = 0;   // its number
  size_t ahead_ = 0;    // bytes of its JSON that are sent
  size_t text_at_ = 0;  // 0: nothing of its text is sent
  bool first_ = true, is_text_ = true, stopped_ = false;
};

}  // namespace anabranch
