// Which conversations a chat template takes. Some templates raise an error for what others render, or leave
// texts out without a word.
#pragma once

#include <string>

#include "base/json.h"
#include "jinja/chat_template.h"

namespace anabranch {

// Each flag: the template renders such a conversation without an error, and with every text in it.
struct TemplateTraits {
  bool system = false;                // a system message at the beginning
  bool several_systems = false;       // several of them at the beginning
  bool late_system = false;           // a system message anywhere else
  bool two_users = false;             // a user message directly after another
  bool two_answers = false;           // an assistant's message directly after another
  bool assistant_first = false;       // the assistant begins
  bool without_user = false;          // no user message at all
  bool empty_answer = false;          // an assistant's message without text and calls
  bool calls = false;                 // a call, its result, and the answer
  bool object_arguments = false;      // a call's arguments as an object; otherwise as its JSON
  bool several_calls = false;         // in one assistant's message
  bool text_with_calls = false;       // in one assistant's message
  bool text_with_last_calls = false;  // there, if no answer follows
  bool text_before_calls = false;     // a message with text, directly followed by one with calls
  bool calls_after_calls = false;     // a message with calls directly after another
  bool answer_after_call = false;     // an answer directly after a call that has no result
  bool user_after_call = false;       // a user's message directly after a call that has no result
  bool user_after_result = false;     // a user's message directly after a call's result
  bool lone_result = false;           // a result without its call
  bool text_arguments = false;        // arguments that are no JSON object, as a text
  bool any_id = false;                // ids of calls in any format
  bool no_id = false;                 // calls and results without ids
  // The content of a message that is inserted where the template needs a user's or assistant's message and
  // the history has none; empty if the template accepts that.
  Json user_filler = ".", answer_filler = ".";
};

// Renders about fifty conversations of a few words each.
TemplateTraits probe_template(const ChatTemplate& chat);

// Whether the rendering has every text of the messages' contents, and one of each call's arguments, as the
// messages have them. False if one is shorter than `least`: it may stand there by chance.
bool has_texts(const std::string& rendered, const Json& messages, size_t least);

// Whether the template refuses the conversation, loses one of those texts (leaves it out, or moves it before
// an earlier one), or keeps all. The texts are replaced by marks, so it does not matter how the template
// writes a text. A leading system message may stand anywhere, and so may the text of an answer with calls.
enum class Texts { refused, lost, kept };
Texts probe_texts(const ChatTemplate& chat, const Json& messages, const Json& tools,
                  const TemplateOptions& options);

}  // namespace anabranch
