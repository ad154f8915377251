// Settings that suit this machine: what was measured with a model (`doctor --tune`) and kept for it, and
// what follows from the machine alone.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/options.h"
#include "cli/settings.h"

namespace anabranch::cli {

// What `doctor --tune` found best with a model on a device of this machine.
struct Tuning {
  int threads = 0;  // 0: not measured, since the device has threads of its own
  int prefill_chunk = 0;
  int parallel = 0;
};

// The file for this machine, model and device: $XDG_CACHE_HOME/anabranch/tuned/<key>.toml. Another processor,
// number of cores, kernel set, device or size of the model's files makes another key. Empty: no directory is
// known for it.
std::string tuning_file(const std::string& model_path, const std::string& device);
Result<void> save_tuning(const std::string& file, const Tuning& tuning, const std::string& comment);

// The kept values as flags, with their origin. Empty when there are none, or the file is damaged.
SettingTable read_tuning(const std::string& file);

// What flags without a value mean on this machine, and why: for `config show`.
SettingTable machine_settings(const std::string& device);

// What --lean means on this machine.
SettingTable lean_settings();

// Sets flags of the parsed command that nobody has set.
void set_unset_flags(CLI::App& command, const SettingTable& table);

}  // namespace anabranch::cli
