// Reads answers that are lists of messages with headers (OpenAI's harmony, gpt-oss):
//
//   [<|start|>ROLE][ to=RECIPIENT]<|channel|>CHANNEL[ to=RECIPIENT][ <|constrain|>TYPE]<|message|>TEXT<|end|>
//
// The channel analysis has thoughts; what goes to a recipient is a call; all else is content. <|call|> and
// <|return|> end a message, too, and <|start|> begins another one. Text where a header should stand, without
// <|channel|> and a recipient, is content. Text in a header that lacks <|message|> is the message's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

// The marks, which are tokens of the vocabulary.
inline constexpr std::string_view kMessageMarks[] = {
    "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"};
inline constexpr std::string_view kThoughtChannel = "analysis";
// How a thought and a call begin in the text for OutputParser. A call ends with <|call|>.
inline constexpr std::string_view kThoughtOpen = "<|channel|>analysis<|message|>", kThoughtClose = "<|end|>",
                                  kMessageCallOpen = "<|channel|>commentary to=functions.",
                                  kMessageCallClose = "<|call|>";

// Brings messages into the one form that OutputParser reads: thoughts between kThoughtOpen and kThoughtClose,
// calls behind kMessageCallOpen, content without a header. Two messages of one kind become one, with a blank
// line between them.
class MessageReader {
 public:
  enum class Part { header, thought, content, call };
  // begin: where the text begins, a header behind its role, or a thought or content. reads_calls: otherwise
  // messages to a recipient are content.
  MessageReader(Part begin, bool reads_calls);
  // mark: the text is one of kMessageMarks, as a token. Appends to `out`, and to `marks` where in `out` a
  // mark begins.
  void push(std::string_view text, bool mark, std::string& out, std::vector<size_t>& marks);
  // Call when no text follows.
  void finish(std::string& out, std::vector<size_t>& marks);

 private:
  void end_message(std::string& out, std::vector<size_t>& marks);
  void begin_message(std::string& out, std::vector<size_t>& marks);
  void close_thought(std::string& out, std::vector<size_t>& marks);
  void begin_content(std::string& out, std::vector<size_t>& marks);

  Part part_;
  bool reads_calls_;
  std::string header_;         // so far, with the marks <|start|> and <|channel|>
  bool thought_open_ = false;  // its closing tag is not written yet
  bool has_content_ = false;   // content came, and no call since
};

}  // namespace anabranch
