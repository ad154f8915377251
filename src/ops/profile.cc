#include "ops/profile.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "ops/backend.h"
#include "ops/cuda/driver.h"

namespace anabranch::ops {
namespace {

bool counting = false, inside = false;
std::vector<ProfileRow> rows;

}  // namespace

void set_profiling(bool on) {
  counting = on;
  if (on) rows.clear();
}

std::vector<ProfileRow> profile() {
  return rows;
}

Stage::Stage(const char* stage) : stage_(counting && !inside ? stage : nullptr) {
  if (!stage_) return;
  inside = true;
  if (backend() == Backend::cuda) cuda::synchronize();
  start_ = now_seconds();
}

Stage::~Stage() {
  if (!stage_) return;
  inside = false;
  try {
    if (backend() == Backend::cuda) cuda::synchronize();
  } catch (const std::exception&) {  // told again by the next who waits for the device
    return;
  }
  const double seconds = now_seconds() - start_;
  auto row = std::find_if(rows.begin(), rows.end(),
                          [&](const ProfileRow& r) { return std::strcmp(r.stage, stage_) == 0; });
  if (row == rows.end()) row = rows.insert(rows.end(), ProfileRow{stage_, 0, 0});
  row->calls++;
  row->seconds += seconds;
}

}  // namespace anabranch::ops
