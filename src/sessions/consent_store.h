// Records what users were asked before tools ran, and which descriptions of tools they know. An approval is
// valid once, for the call in question, with the tool as it was then, and for the key that was asked. Such
// facts come only from here, never from conversations, because clients write those.
//
// Thread-safe. Errors of the database are logged and count as "not asked".
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
  // path: the path of an SQLite database; empty: in memory. Errors: io (it cannot be opened, or has another
  // version).
  static Result<std::unique_ptr<ConsentStore>> open(const std::string& path);
  ~ConsentStore();

  // Remembers the question until it is answered, for a week at most, and at most the latest 10,000 of each
  // owner.
  void ask(const ConsentQuestion& question);
  // The user does not approve: removes the question.
  void decline(const std::string& owner, const std::string& call);

  enum class Verdict {
    granted,       // the question was asked exactly like this, and is now answered
    not_asked,     // it was not asked, or was answered before
    other_call,    // another tool or other arguments were shown
    changed_tool,  // the tool's description or schema has changed since
  };
  // The user approves. Only `granted` removes the question; the tool's description then counts as known.
  Verdict approve(const ConsentQuestion& question);

  // Whether the description of a tool that needs no approval has changed since this owner first used or last
  // approved it. The first description counts as known. For each owner and server, the 1,000 tools used last
  // are remembered.
  bool has_changed(const std::string& owner, const std::string& server, const std::string& tool,
                   const std::string& shown);

 private:
  class Database;
  explicit ConsentStore(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace anabranch
