// What users were asked before tools ran, and which descriptions of tools they know: an approval counts for
// the call that was asked for, with the tool as it was then, once, for the key that was asked. Facts of this
// kind come from here only, never from conversations, which clients write.
//
// Threads: every function may be called from any thread. Errors of the database are logged and count as "not
// asked".
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace anabranch {

struct ConsentQuestion {
  std::string owner;  // the name of the request's key
  std::string call;   // the call's id
  std::string server, tool;
  std::string arguments;  // as text
  std::string shown;      // the tool's description, schema and origin as text
};

class ConsentStore {
 public:
  // path: of an SQLite database; empty: in memory. Errors: io (it cannot be opened, or is of another
  // version).
  static Result<std::unique_ptr<ConsentStore>> open(const std::string& path);
  ~ConsentStore();

  // Remembers the question until it is answered, for a week at most. The latest 10,000 of each owner are.
  void ask(const ConsentQuestion& question);
  // The user does not approve: the question ends.
  void decline(const std::string& owner, const std::string& call);

  enum class Verdict {
    granted,       // it was asked like this, and is answered herewith
    not_asked,     // or answered before
    other_call,    // another tool or other arguments were shown
    changed_tool,  // its description or schema is another one now
  };
  // The user approves. Only `granted` ends the question; the tool is then known as it was shown.
  Verdict approve(const ConsentQuestion& question);

  // Whether a tool that needs no question is described otherwise than when this owner first used or last
  // approved it. The first description counts as known. Of each owner's tools of a
  // server the 1,000 that were used last are remembered.
  bool has_changed(const std::string& owner, const std::string& server, const std::string& tool,
                   const std::string& shown);

 private:
  class Database;
  explicit ConsentStore(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace anabranch
