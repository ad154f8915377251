#include "cli/tuning.h"

#include <fmt/chrono.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/cpu_info.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/memory_info.h"
#include "base/part_name.h"
#include "base/user_directory.h"
#include "cli/reports.h"
#include "cli/text.h"
#include "ops/open.h"
#include "ops/table.h"

namespace anabranch::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = 1 << 16;
constexpr int kMostThreads = 1024, kMostChunk = 1 << 16, kMostParallel = 1024;

// Total size of the model's files, following links.
uint64_t bytes_of_files(const std::string& path) {
  std::error_code code;
  uint64_t bytes = 0;
  if (!fs::is_directory(path, code)) {
    for (const std::string& part : paths_of_parts(path)) {
      const auto size = fs::file_size(part, code);
      if (!code) bytes += size;
    }
    return bytes;
  }
  for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code)) {
    const auto extension = it->path().extension();
    std::error_code ignored;
    if (extension == ".safetensors" || extension == ".gguf") bytes += it->file_size(ignored);
  }
  return bytes;
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr)));
}

}  // namespace

std::string tuning_file(const std::string& model_path, const std::string& device) {
  const std::string cache = user_cache_directory();
  if (cache.empty()) return "";
  const CpuInfo& cpu = cpu_info();
  std::error_code code;
  const std::string about =
      fmt::format("{} {} {} {} {} {} {} {} {}", ANABRANCH_VERSION, cpu.model, cpu.logical_cores,
                  cpu.performance_cores, cpu.quota, cpu.memory_bytes >> 30, device,
                  fs::weakly_canonical(model_path, code).string(), bytes_of_files(model_path));
  Fnv1a hash;
  for (const char c : about) hash.add(static_cast<uint8_t>(c));
  return fmt::format("{}/tuned/{:016x}.toml", cache, hash.value());
}

Result<void> save_tuning(const std::string& file, const Tuning& tuning, const std::string& comment) {
  std::error_code code;
  fs::create_directories(fs::path(file).parent_path(), code);
  const std::string temporary = fmt::format("{}.{}", file, ::getpid());
  std::string text = fmt::format("# {}\nmeasured = \"{}\"\n", comment, today());
  if (tuning.threads > 0) text += fmt::format("threads = {}\n", tuning.threads);
  text += fmt::format("prefill-chunk = {}\nparallel = {}\n", tuning.prefill_chunk, tuning.parallel);
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  if (out && std::rename(temporary.c_str(), file.c_str()) == 0) return {};
  fs::remove(temporary, code);
  return make_error(ErrorKind::io, "cannot write {}", file);
}

SettingTable read_tuning(const std::string& file) {
  SettingTable out;
  std::error_code code;
  if (file.empty() || !fs::exists(file, code)) return out;
  const auto text = read_file(file, kMaxBytes);
  if (!text) return out;
  try {
    const toml::table table = toml::parse(*text);
    const std::string when = table["measured"].value_or(std::string("?"));
    const auto take = [&](const char* name, int most) {
      const auto value = table[name].value<int64_t>();
      if (value && *value >= 1 && *value <= most)
        out[name] = {{std::to_string(*value)}, fmt::format("tuned {} ({})", when, file)};
    };
    take("threads", kMostThreads);
    take("prefill-chunk", kMostChunk);
    take("parallel", kMostParallel);
  } catch (const toml::parse_error&) {
    out.clear();
  }
  return out;
}

SettingTable machine_settings(const std::string& name) {
  SettingTable out;
  const auto device = ops::open_device({name});
  if (!device) return out;
  const auto add = [&](const char* flag, std::string value, std::string why) {
    out[flag] = {{std::move(value)}, "this machine: " + std::move(why)};
  };
  const ThreadCount threads = choose_threads(cpu_info());
  add("threads", std::to_string(threads.threads), threads.why);
  add("prefill-chunk", std::to_string((*device)->prefill_chunk()), "what its kernels need to be fast");
  add("parallel", std::to_string((*device)->parallel()), "as many as fit its memory");
  const uint64_t machine = machine_memory();
  add("cache-ram", size_text(std::min<uint64_t>(machine / 8, 8ull << 30)),
      "an eighth of its memory, 8 GiB at most");
  const uint64_t memory = memory_of(**device);
  add("memory", size_text(memory / 2), "half of the device's memory, or what of it is free");
  add("model-memory", size_text(memory / 4 * 3), "three quarters of the device's memory");
  return out;
}

SettingTable lean_settings() {
  SettingTable out;
  const auto add = [&](const char* flag, std::string value) { out[flag] = {{std::move(value)}, "--lean"}; };
  const auto megabytes = [](uint64_t bytes) {
    return fmt::format("{}MB", std::max<uint64_t>(64, bytes >> 20));
  };
  const uint64_t machine = machine_memory();
  add("threads", std::to_string(std::max(1, choose_threads(cpu_info()).threads / 2)));
  add("parallel", "2");
  add("queue", "16");
  add("cache-ram", megabytes(std::min<uint64_t>(machine / 64, 256ull << 20)));
  add("cache-disk", "1GB");
  add("memory", megabytes(machine / 16));
  add("model-memory", megabytes(machine / 2));
  add("unload-after", "300");
  return out;
}

void set_unset_flags(CLI::App& command, const SettingTable& table) {
  for (const auto& [name, setting] : table) {
    CLI::Option* option = command.get_option_no_throw("--" + name);
    if (!option || option->count() > 0) continue;
    for (const std::string& value : setting.values) option->add_result(value);
    option->run_callback();
  }
}

}  // namespace anabranch::cli
