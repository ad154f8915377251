// The beginnings of calls that name one of a request's tools: everything from behind the mark that opens a
// call to the end of the name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "output/output_format.h"

namespace anabranch {

class CallHeads {
 public:
  // How far a beginning has been read.
  struct Position {
    int node = 0;
    int blanks = 0;  // white space, or bytes of an id, since the last other byte
  };
  enum class Step { broken, inside, complete };

  // tools: OpenAI's array. They are called by their names and by short_names(). Names that cannot be written
  // in the model's format are left out.
  CallHeads(const OutputFormat& format, const Json& tools);

  // No tool can be called: nothing may be demanded.
  bool empty() const { return nodes_.front().next.empty(); }
  // Whether a tool can be called behind this opener (see call_openers).
  bool has(std::string_view opener) const { return opener != kFunctionOpen || function_ >= 0; }
  // The position behind an opener.
  Position begin(std::string_view opener) const;
  // Reads bytes. complete: the name has ended within them, and anything may follow.
  Step read(Position& position, std::string_view bytes) const;
  // The bytes that may come next.
  std::string next(const Position& position) const;

 private:
  struct Node {
    bool blanks = false;  // white space may stand here
    bool id = false;      // and an id
    std::vector<std::pair<char, int>> next;
  };
  // In a pattern, kBlanks stands for white space of any length up to a limit, also for none, and kId for an
  // id.
  void add(std::string_view pattern);
  int child(int node, char byte) const;  // -1: none

  std::vector<Node> nodes_{1};
  int function_ = -1;  // the node behind "<function="
};

}  // namespace anabranch
