// Shows a download: on a terminal one line that changes, elsewhere JSON lines.
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
  // Prints the last line. Its path can be passed to `--model`.
  void finish(const hub::PullReport& report);
  // Removes the changing line, if it is shown.
  void clear();

 private:
  struct Sample {
    double time = 0;
    uint64_t done = 0;
  };
  // Recent bytes per second; 0: not known yet.
  double rate(double time, uint64_t done);
  void draw(const hub::PullProgress& now, double rate);

  std::FILE* stream_;
  std::string model_;
  bool terminal_, drawn_ = false;
  double every_, next_ = 0;
  std::deque<Sample> samples_;
};

}  // namespace anabranch::cli
