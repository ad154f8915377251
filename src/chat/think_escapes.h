// How a thought that must end goes over into the answer, by the form that was asked for.
#pragma once

#include <string>

#include "chat/answer_form.h"

namespace anabranch {

struct ThinkEscape {
  std::string closing;       // the last words of the thought; empty: the engine's
  std::string answer_start;  // the first of the answer: a part of it. Often empty: it must fit every answer
};

ThinkEscape think_escape(const text::AskedForm& asked);

}  // namespace anabranch
