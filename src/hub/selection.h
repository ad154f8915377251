// Selects one of a repository's models, and checks whether it can run here.
#pragma once

#include <optional>
#include <string>

#include "hub/inspection.h"
#include "hub/model_files.h"

namespace anabranch::hub {

// The result of a selection, before anything is downloaded.
struct Selection {
  ModelName name;  // the requested name, or another model of the repository if a bare name's first choice
                   // cannot run
  ModelFiles choice;
  std::string note;     // why the name differs from the requested one; "": it does not
  std::string problem;  // why it cannot run here; "": no problem is known
  std::string instead;  // in that case the name of a model that can run here; "": none was found
  std::optional<Inspection> inspection;  // for look_again(); none: nothing was checked

  // The error for somebody who requests it.
  Error refusal() const;
};

class Selector {
 public:
  // inspector: null means that nothing is checked.
  Selector(Api& api, const Inspector* inspector, const Repository& repository, const ModelName& name,
           const ReadFile& read);

  // Errors: see choose_files(), with the name of a model that can run here if one was found.
  Result<Selection> select(Purpose purpose);

 private:
  Result<Selection> without_choice(const Error& why);
  std::optional<Selection> another_model(const Selection& first);
  // The name of a model that can run here, from a repository that usually has the same model. why_not: the
  // reason() why the first choice cannot run; the search ends at a model that fails for the same reason. "":
  // none was found.
  std::string find_instead(const std::string& why_not);
  std::string sister(const std::string& repo, const std::string& why_not, bool& same_reason);

  Api& api_;
  const Inspector* inspector_;
  const Repository& repository_;
  const ModelName& name_;
  const ReadFile& read_;
  std::vector<std::string> paths_;
  int looks_ = 0;  // alternatives checked so far
};

}  // namespace anabranch::hub
