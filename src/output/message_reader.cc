#include "output/message_reader.h"

#include <algorithm>

#include "base/white_space.h"

namespace anabranch {
namespace {

constexpr size_t kMaxHeader = 1024;     // what is longer is cut
constexpr size_t kMaxBareHeader = 256;  // so much text without a mark is no header
constexpr std::string_view kChannel = "<|channel|>", kRecipient = "to=", kFunctions = "functions.";

// The word at `at`, up to white space or a mark.
std::string_view word_at(std::string_view text, size_t at) {
  return text.substr(at, text.find_first_of(" \t\r\n<", at) - at);
}

// Whom the message goes to; empty: to the user.
std::string_view recipient_in(std::string_view header) {
  for (size_t at = header.find(kRecipient); at != header.npos; at = header.find(kRecipient, at + 1))
    if (at == 0 || is_space(header[at - 1]) || header[at - 1] == '>')
      return word_at(header, at + kRecipient.size());
  return {};
}

std::string_view channel_in(std::string_view header) {
  const size_t at = header.rfind(kChannel);
  if (at == header.npos) return {};
  const size_t begin = header.find_first_not_of(kSpace, at + kChannel.size());
  return begin == header.npos ? std::string_view() : word_at(header, begin);
}

}  // namespace

MessageReader::MessageReader(Part begin, bool reads_calls)
    : part_(begin), reads_calls_(reads_calls), thought_open_(begin == Part::thought) {
  has_content_ = begin == Part::content;
}

void MessageReader::close_thought(std::string& out, std::vector<size_t>& marks) {
  if (!thought_open_) return;
  marks.push_back(out.size());
  out += kThoughtClose;
  thought_open_ = false;
}

void MessageReader::end_message(std::string& out, std::vector<size_t>& marks) {
  if (part_ == Part::call) {
    marks.push_back(out.size());
    out += kMessageCallClose;
  }
  part_ = Part::header;
  header_.clear();
}

void MessageReader::begin_message(std::string& out, std::vector<size_t>& marks) {
  std::string_view recipient = recipient_in(header_);
  const bool call = reads_calls_ && !recipient.empty() && recipient != "user" && recipient != "all";
  if (!call && channel_in(header_) == kThoughtChannel) {
    part_ = Part::thought;
    if (thought_open_) {
      out += "\n\n";
      return;
    }
    if (has_content_) out += "\n\n";
    has_content_ = false;
    marks.push_back(out.size());
    out += kThoughtOpen;
    thought_open_ = true;
    return;
  }
  close_thought(out, marks);
  part_ = call ? Part::call : Part::content;
  if (!call) {
    if (has_content_) out += "\n\n";
    has_content_ = true;
    return;
  }
  has_content_ = false;
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  marks.push_back(out.size());
  out.append(kMessageCallOpen).append(recipient).append("<|message|>");
}

// Whether the header is only text, and the first of the answer.
bool MessageReader::is_bare() const {
  return part_ == Part::header && !seen_header_ && recipient_in(header_).empty();
}

void MessageReader::push(std::string_view text, bool mark, std::string& out, std::vector<size_t>& marks) {
  if (!mark) {
    if (part_ != Part::header) {
      out += text;
      return;
    }
    header_ += text.substr(0, kMaxHeader - std::min(kMaxHeader, header_.size()));
    if (is_bare() && header_.size() > kMaxBareHeader) finish(out);
    return;
  }
  if (text == "<|message|>") {
    if (part_ == Part::header) begin_message(out, marks);
  } else if (text == "<|constrain|>") {
    if (part_ == Part::header) header_ += ' ';
  } else {
    if (part_ != Part::header) end_message(out, marks);
    header_.resize(text == kChannel ? header_.size() : 0);
    if (text == kChannel) header_ += text;
  }
  seen_header_ = true;
}

void MessageReader::finish(std::string& out) {
  if (!is_bare()) return;
  out += header_;
  header_.clear();
  part_ = Part::content;
  has_content_ = true;
}

}  // namespace anabranch
