// Makes JSON that contains text from files, servers and clients safe to print. Used by base/log.h and by
// cli/print.h, which prints the results of commands.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

// Replaces hidden characters in the strings of a JSON text by JSON escapes ("\u202e"). Line feeds stay.
std::string escape_json(std::string_view json);

}  // namespace anabranch
