#include "decode/spec_stats.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <locale>
#include <sstream>
#include <system_error>

#include "base/mapped_file.h"
#include "base/user_directory.h"

namespace anabranch {
namespace {

constexpr const char* kHeader = "anabranch-speculation 1";
constexpr size_t kMaxBytes = 64 << 10;  // far more than all possible lines together

// Sources whose cost of drafting is measured.
bool is_timed(int source) {
  return source >= static_cast<int>(DraftSource::mtp) && source < kDraftSources;
}

void write_curve(std::string& text, const std::string& name, const CostCurve& curve) {
  for (size_t i = 1; i < curve.weight.size(); i++)
    if (curve.weight[i] > 0) text += fmt::format("{} {} {} {}\n", name, i, curve.seconds[i], curve.weight[i]);
}

bool read_point(std::istream& in, CostCurve& curve) {
  size_t count;
  double seconds, weight;
  if (!(in >> count >> seconds >> weight) || count < 1 || count >= curve.weight.size()) return false;
  curve.seconds[count] = seconds;
  curve.weight[count] = weight;
  return seconds >= 1e-9 && seconds <= 1e4 && weight > 0 && weight <= 1e3;
}

bool read_counts(std::istream& in, SpecStats& stats) {
  size_t draft_class, position;
  double tried, accepted;
  if (!(in >> draft_class >> position >> tried >> accepted)) return false;
  if (draft_class >= stats.acceptance.size() || position < 1 || position > size_t{kMaxDraft}) return false;
  stats.acceptance[draft_class].tried[position - 1] = tried;
  stats.acceptance[draft_class].accepted[position - 1] = accepted;
  return tried > 0 && tried <= 1e4 && accepted >= 0 && accepted <= tried;
}

}  // namespace

std::string spec_stats_text(const SpecStats& stats) {
  std::string text = fmt::format("{}\n", kHeader);
  write_curve(text, "verify", stats.verify);
  for (int k = 0; k < kDraftSources; k++)
    if (is_timed(k)) write_curve(text, fmt::format("draft {}", kDraftSourceNames[k]), stats.draft[k]);
  for (size_t c = 0; c < stats.acceptance.size(); c++)
    for (int i = 0; i < kMaxDraft; i++) {
      const AcceptanceCounts& counts = stats.acceptance[c];
      if (counts.tried[i] > 0)
        text += fmt::format("accept {} {} {} {}\n", c, i + 1, counts.tried[i], counts.accepted[i]);
    }
  return text + "end\n";
}

std::optional<SpecStats> parse_spec_stats(std::string_view text) {
  if (text.size() > kMaxBytes) return std::nullopt;
  std::istringstream in{std::string(text)};
  in.imbue(std::locale::classic());
  std::string word;
  if (!std::getline(in, word) || word != kHeader) return std::nullopt;
  SpecStats stats;
  while (in >> word && word != "end") {
    bool good = false;
    if (word == "verify") {
      good = read_point(in, stats.verify);
    } else if (word == "accept") {
      good = read_counts(in, stats);
    } else if (word == "draft" && in >> word) {
      const std::optional<DraftSource> source = source_named(word);
      good = source && read_point(in, stats.draft[static_cast<int>(*source)]);
    }
    if (!good) return std::nullopt;
  }
  // Formatting the result must give the same text: this rejects lines that are repeated, out of order or
  // extra.
  if (spec_stats_text(stats) != text) return std::nullopt;
  return stats;
}

std::string spec_stats_path(std::string_view key) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (key.empty() || key.size() > 128 || !std::all_of(key.begin(), key.end(), allowed)) return {};
  const std::string cache = user_cache_directory();
  if (cache.empty()) return {};
  return fmt::format("{}/speculation/{}.txt", cache, key);
}

SpecStats load_spec_stats(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};  // a pipe would block
  const Result<std::string> text = read_file(path, kMaxBytes);
  return text.ok() ? parse_spec_stats(*text).value_or(SpecStats{}) : SpecStats{};
}

bool save_spec_stats(const std::string& path, const SpecStats& stats) {
  if (path.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::string temporary = path + ".XXXXXX";
  const int fd = mkstemp(temporary.data());  // made 0600
  if (fd < 0) return false;
  const std::string text = spec_stats_text(stats);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool good = close(fd) == 0 && written && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!good) unlink(temporary.c_str());
  return good;
}

}  // namespace anabranch
