// How a download is shown: one line that changes on a terminal, JSON lines elsewhere.
#pragma once

#include <cstdio>
#include <deque>
#include <string>

#include "hub/pull.h"

namespace anabranch::cli {

class PullDisplay {
 public:
  // every: seconds between JSON lines.
  PullDisplay(std::FILE* stream, std::string model, double every);

  void progress(const hub::PullProgress& now);
  void note(const std::string& sentence);
  // The last line. The path is what `--model` takes as well.
  void finish(const hub::PullReport& report);
  // Removes the line that changes, if it stands there.
  void clear();

 private:
  struct Sample {
    double time = 0;
    uint64_t done = 0;
  };
  // Bytes a second, lately; 0: not known yet.
  double rate(double time, uint64_t done);
  void draw(const hub::PullProgress& now, double rate);

  std::FILE* stream_;
  std::string model_;
  bool terminal_, drawn_ = false;
  double every_, next_ = 0;
  std::deque<Sample> samples_;
};

}  // namespace anabranch::cli
