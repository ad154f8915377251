// Where the time of a forward pass goes: wall time per named stage on the thread that runs the model. Off by
// default; a stage then costs one test of a flag. Stages do not nest: an inner one inside an outer one is
// charged to the outer.
#pragma once

#include <cstdint>
#include <vector>

namespace anabranch::ops {

struct ProfileRow {
  const char* stage = "";
  int64_t calls = 0;
  double seconds = 0;
};

// Starts counting from zero (true), or stops (false).
void set_profiling(bool on);
// What has been counted since, in the order in which the stages first ran.
std::vector<ProfileRow> profile();

// Charges its lifetime to `stage`, a string literal. On one thread at a time: the one that owns MLX.
class Stage {
 public:
  explicit Stage(const char* stage);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  const char* stage_;  // null when not counting
  double start_ = 0;
};

}  // namespace anabranch::ops
