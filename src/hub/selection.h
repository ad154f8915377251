// Which of a repository's models to take, and whether it can run here.
#pragma once

#include <optional>
#include <string>

#include "hub/file_choice.h"
#include "hub/inspection.h"

namespace anabranch::hub {

// What is known of a name before anything is downloaded.
struct Selection {
  ModelName
      name;  // as asked for, or another model of the repository if a bare name's first choice cannot run
  FileChoice choice;
  std::string note;                      // why it is another one; "": it is not
  std::string problem;                   // why it cannot run here; "": nothing is known that prevents it
  std::string instead;                   // the name of a model that can run here then; "": none was found
  std::optional<Inspection> inspection;  // for look_again(); none: nothing was looked at

  // What to say to somebody who wants it.
  Error refusal() const;
};

class Selector {
 public:
  // inspector: null, nothing is looked at.
  Selector(Api& api, const Inspector* inspector, const Repository& repository, const ModelName& name,
           const ReadFile& read);

  // Errors: as choose_files(), with a model that can run here where one was found.
  Result<Selection> select(Purpose purpose);

 private:
  Result<Selection> without_choice(const Error& why);
  std::optional<Selection> another_model(const Selection& first);
  // The name of a model that can run here, of a repository that usually has the same one. why_not: the
  // reason() against the first, which ends the search when another has it too. "": none was found.
  std::string find_instead(const std::string& why_not);
  std::string sister(const std::string& repo, const std::string& why_not, bool& same_reason);

  Api& api_;
  const Inspector* inspector_;
  const Repository& repository_;
  const ModelName& name_;
  const ReadFile& read_;
  std::vector<std::string> paths_;
  int looks_ = 0;  // at alternatives
};

}  // namespace anabranch::hub
