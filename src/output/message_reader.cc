#include "output/message_reader.h"

#include <algorithm>

#include "base/white_space.h"

namespace anabranch {
namespace {

constexpr size_t kMaxHeader = 1024;     // what is longer is text
constexpr size_t kMaxBareHeader = 256;  // so much text without a channel is no header
constexpr std::string_view kStart = "<|start|>", kRole = "assistant", kChannel = "<|channel|>",
                           kConstrain = "<|constrain|>", kRecipient = "to=", kFunctions = "functions.";

// The word at `at`, up to white space or a mark.
std::string_view word_at(std::string_view text, size_t at) {
  return text.substr(at, text.find_first_of(" \t\r\n<", at) - at);
}

// The header behind its role.
std::string_view without_role(std::string_view header) {
  if (!header.starts_with(kStart)) return header;
  header.remove_prefix(kStart.size());
  if (header.starts_with(kRole)) header.remove_prefix(kRole.size());
  return header;
}

// Whom the message goes to; empty: to the user. The recipient stands behind the role or behind the channel.
std::string_view recipient_in(std::string_view header) {
  header = without_role(header);
  const size_t channel = std::min(header.find(kChannel), header.size());
  const std::string_view first = trimmed(header.substr(0, channel));
  if (first.starts_with(kRecipient)) return word_at(first, kRecipient.size());
  for (size_t at = header.find(kRecipient, channel); at != header.npos; at = header.find(kRecipient, at + 1))
    if (is_space(header[at - 1]) || header[at - 1] == '>') return word_at(header, at + kRecipient.size());
  return {};
}

std::string_view channel_in(std::string_view header) {
  const size_t at = header.rfind(kChannel);
  if (at == header.npos) return {};
  const size_t begin = header.find_first_not_of(kSpace, at + kChannel.size());
  return begin == header.npos ? std::string_view() : word_at(header, begin);
}

// What of the header is text of the answer, because it has neither a channel nor a recipient.
std::string_view text_in(std::string_view header) {
  if (header.find(kChannel) != header.npos) return {};
  if (header.starts_with(kStart) && kRole.starts_with(header.substr(kStart.size()))) return {};
  const bool whole = header.size() <= kMaxHeader;
  header = without_role(header);
  return whole && trimmed(header).starts_with(kRecipient) ? std::string_view() : header;
}

// What follows the channel, a recipient and a type: where <|message|> is missing, it is the message's text. A
// call's begins with a brace.
std::string_view text_behind_channel(std::string_view header) {
  size_t at = header.rfind(kChannel);
  if (at == header.npos) return {};
  if (header.size() > kMaxHeader) return header.substr(at + kChannel.size());
  for (std::string_view mark = kChannel; !mark.empty();) {
    at = header.find_first_not_of(kSpace, at + mark.size());
    at = header.find_first_of(" \t\r\n<{", at);
    at = std::min(header.find_first_not_of(kSpace, at), header.size());
    const auto rest = header.substr(at);
    mark = rest.starts_with(kRecipient) ? kRecipient : rest.starts_with(kConstrain) ? kConstrain : "";
  }
  if (!recipient_in(header.substr(0, at)).empty()) at = std::min(header.find('{', at), header.size());
  const auto text = header.substr(at);
  return trimmed(text) == "json" ? std::string_view() : text;
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
  if (!call) return begin_content(out, marks);
  close_thought(out, marks);
  part_ = Part::call;
  has_content_ = false;
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  marks.push_back(out.size());
  out.append(kMessageCallOpen).append(recipient).append("<|message|>");
}

void MessageReader::begin_content(std::string& out, std::vector<size_t>& marks) {
  close_thought(out, marks);
  part_ = Part::content;
  if (has_content_) out += "\n\n";
  has_content_ = true;
}

void MessageReader::push(std::string_view text, bool mark, std::string& out, std::vector<size_t>& marks) {
  if (!mark) {
    if (part_ != Part::header) {
      out += text;
      return;
    }
    header_ += text;
    if (std::max(text_in(header_).size(), text_behind_channel(header_).size()) > kMaxBareHeader)
      finish(out, marks);
    return;
  }
  if (text == "<|message|>") {
    if (part_ == Part::header) begin_message(out, marks);
  } else if (text == "<|constrain|>") {
    if (part_ == Part::header) header_ += header_.find(kChannel) == header_.npos ? " " : kConstrain;
  } else {
    finish(out, marks);
    if (part_ != Part::header) end_message(out, marks);
    if (text != kChannel) header_.clear();
    if (text == kChannel || text == kStart) header_ += text;
  }
}

void MessageReader::finish(std::string& out, std::vector<size_t>& marks) {
  if (part_ != Part::header) return;
  const std::string_view behind = text_behind_channel(header_);
  const std::string text(behind.empty() ? text_in(header_) : behind);
  if (is_blank(text)) return;
  if (behind.empty() || header_.size() > kMaxHeader) {
    begin_content(out, marks);
  } else {
    header_.resize(header_.size() - text.size());
    begin_message(out, marks);
  }
  out += text;
  header_.clear();
}

}  // namespace anabranch
