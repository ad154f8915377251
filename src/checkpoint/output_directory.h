// A directory that appears under its name only when it is complete.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace anabranch {

class OutputDirectory {
 public:
  // Works in a new directory beside `target`. Errors: invalid (`target` exists and not `force`, is the
  // source, or is not a model directory that `force` may replace), io.
  static Result<std::unique_ptr<OutputDirectory>> make(const std::string& target, const std::string& source,
                                                       bool force);
  ~OutputDirectory();  // removes the directory if it was not published
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::string& path() const { return work_; }
  Result<void> publish();

 private:
  OutputDirectory(std::string target, std::string work)
      : target_(std::move(target)), work_(std::move(work)) {}
  std::string target_, work_;
  bool published_ = false;
};

}  // namespace anabranch
