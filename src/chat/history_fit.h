// Adapts the messages of a conversation to what a chat template takes. Clients send back whatever a
// conversation has become: late system messages, broken arguments, ids of other providers, roles in any
// order. None of it may end the conversation, and no text may be lost.
#pragma once

#include <memory>

#include "chat/template_traits.h"
#include "jinja/chat_template.h"

namespace anabranch {

// The messages (each an object) with every part changed that the template does not take; the others stay as
// they are, so that the prompt's beginning stays, too.
Json fit_history(const Json& messages, const TemplateTraits& traits);

// The same template for any history. Conversations that it renders with all their texts are rendered as they
// are, except that a call's arguments become an object where they can be read as one. Others are adapted: see
// fit_history(); if the template refuses that as well, calls and results become text. `chat` must outlive the
// result. Errors of render(): those for the unchanged messages.
std::unique_ptr<const ChatTemplate> with_fitted_history(const ChatTemplate& chat);

}  // namespace anabranch
