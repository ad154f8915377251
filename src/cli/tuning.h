// Settings for this machine: those that `doctor --tune` measured and stored for a model, and those that
// follow from the machine alone.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/options.h"
#include "cli/settings.h"

namespace anabranch::cli {

// The settings that `doctor --tune` found best for a model on a device of this machine.
struct Tuning {
  int threads = 0;  // 0: not measured, because the device has threads of its own
  int prefill_chunk = 0;
  int parallel = 0;
};

// The file for this machine, model and device: $XDG_CACHE_HOME/anabranch/tuned/<key>.toml. The key depends on
// the processor, the number of cores, the kernel set, the device and the size of the model's files. Empty: no
// directory for it is known.
std::string tuning_file(const std::string& model_path, const std::string& device);
Result<void> save_tuning(const std::string& file, const Tuning& tuning, const std::string& comment);

// The stored values as flags, with their origin. Empty if there are none or the file is damaged.
SettingTable read_tuning(const std::string& file);

// The values that unset flags have on this machine, with the reason, for `config show`.
SettingTable machine_settings(const std::string& device);

// The flags that --lean sets on this machine.
SettingTable lean_settings();

// Sets flags of the parsed command that nobody has set.
void set_unset_flags(CLI::App& command, const SettingTable& table);

}  // namespace anabranch::cli
