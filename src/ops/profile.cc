#include "ops/profile.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace anabranch::ops {

void set_profiling(Device& device, bool on) {
  Profile& profile = device.profile();
  profile.on = on;
  if (on) profile.rows.clear();
}

Stage::Stage(Device& device, const char* stage)
    : device_(device), stage_(device.profile().on && !device.profile().inside ? stage : nullptr) {
  if (!stage_) return;
  device_.profile().inside = true;
  device_.synchronize();
  start_ = now_seconds();
}

Stage::~Stage() {
  if (!stage_) return;
  Profile& profile = device_.profile();
  profile.inside = false;
  try {
    device_.synchronize();
  } catch (const std::exception&) {  // the next call that waits for the device reports it again
    return;
  }
  const double seconds = now_seconds() - start_;
  auto row = std::find_if(profile.rows.begin(), profile.rows.end(),
                          [&](const ProfileRow& r) { return std::strcmp(r.stage, stage_) == 0; });
  if (row == profile.rows.end()) row = profile.rows.insert(row, ProfileRow{stage_, 0, 0});
  row->calls++;
  row->seconds += seconds;
}

}  // namespace anabranch::ops
