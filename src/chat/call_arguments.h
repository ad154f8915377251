// Arguments of calls as histories have them: mostly an object, or its JSON as a text.
#pragma once

#include "base/json.h"

namespace anabranch {

// A call's arguments as an object, where they can be read as one: an object in a text, also one with line
// breaks inside its strings or in a text of a text; nothing at all is an empty one. Other texts stay as they
// are, and other values become their JSON. An object in which Claude Code sends back a text that it could not
// parse is that text.
Json read_arguments(const Json& arguments);

// Reads the arguments of all calls.
void read_all_arguments(Json& messages);
// Whether that changes anything.
bool has_unread_arguments(const Json& messages);

// Makes arguments that are still a text the text of one parameter.
void name_text_arguments(Json& messages);

// Writes arguments that are an object as JSON.
void write_object_arguments(Json& messages);

}  // namespace anabranch
