// `cache`: lists, sums up, checks and removes the prefix cache on disk.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "base/clock.h"
#include "base/json.h"
#include "cache/disk_tools.h"
#include "chat/turn_memory.h"
#include "cli/confirm.h"
#include "cli/conversation.h"
#include "cli/print.h"
#include "cli/text.h"

namespace anabranch::cli {
namespace {

// The value of the line "WHAT VALUE" in the note that a store left about its folder.
std::string about(const CacheFolder& folder, const std::string& what) {
  const std::string text = "\n" + folder.about, start = "\n" + what + " ";
  const size_t at = text.find(start);
  if (at == text.npos) return {};
  const size_t from = at + start.size();
  return text.substr(from, text.find('\n', from) - from);
}

// Prints a report. Paths in it need not be UTF-8: other bytes are replaced.
void print_json(const Json& json) {
  say_json(json, 2);
}

struct Sum {
  uint64_t blocks = 0, points = 0, bytes = 0, block_bytes = 0;
  int64_t oldest_ns = 0, newest_ns = 0;
  uint64_t records() const { return blocks + points; }
  uint64_t tokens() const { return blocks * kBlockTokens; }
  void add(const DiskRecord& record) {
    (record.kind == RecordKind::block ? blocks : points)++;
    bytes += record.bytes;
    if (record.kind == RecordKind::block) block_bytes += record.bytes;
    oldest_ns = oldest_ns == 0 ? record.used_at_ns : std::min(oldest_ns, record.used_at_ns);
    newest_ns = std::max(newest_ns, record.used_at_ns);
  }
};

Sum sum_of(const CacheFolder& folder) {
  Sum sum;
  for (const DiskRecord& record : folder.records) sum.add(record);
  return sum;
}

Sum sum_of(const std::vector<CacheFolder>& folders) {
  Sum sum;
  for (const CacheFolder& folder : folders)
    for (const DiskRecord& record : folder.records) sum.add(record);
  return sum;
}

Json head_json(const CacheFolder& folder) {
  Json json = {{"fingerprint", to_hex(folder.fingerprint)},
               {"model", about(folder, "model")},
               {"setting", about(folder, "setting")},
               {"path", about(folder, "path")}};
  if (!folder.problem.empty()) json["problem"] = folder.problem;
  return json;
}

void print_head(const CacheFolder& folder) {
  const std::string model = about(folder, "model"), setting = about(folder, "setting"),
                    path = about(folder, "path");
  say("\n{}{}{}\n", model.empty() ? "(model unknown)" : model, setting.empty() ? "" : ", " + setting,
      path.empty() ? "" : ", " + path);
  const Sum sum = sum_of(folder);
  say("fingerprint {}, {}, {}\n", to_hex(folder.fingerprint), count_text(sum.records(), "record"),
      size_text(sum.bytes));
  if (!folder.problem.empty()) say("{}\n", folder.problem);
}

// Cached outputs of vision towers for images, for all models together.
Json images_json(const ImageFiles& images) {
  return {{"files", images.files}, {"bytes", images.bytes}};
}

std::string images_text(const ImageFiles& images) {
  return fmt::format("{} ({})", count_text(images.files, "encoded image"), size_text(images.bytes));
}

// ---- ls

// Shows the last few points, from which the next turns continue.
std::string points_text(const std::vector<uint32_t>& points) {
  constexpr size_t kShown = 4;
  std::string text = points.size() > kShown ? fmt::format("({} more)", points.size() - kShown) : "";
  for (size_t i = points.size() - std::min(points.size(), kShown); i < points.size(); i++)
    text += (text.empty() ? "" : " ") + std::to_string(points[i]);
  return text;
}

constexpr int kDeepest = 8;  // levels of indentation at most

void print_branches(const CacheFolder& folder, bool all) {
  constexpr size_t kShown = 20;
  const auto branches = branches_of(folder);
  if (branches.empty()) return;
  const size_t shown = all ? branches.size() : std::min(branches.size(), kShown);
  size_t width = 16;
  const auto label = [](const CacheBranch& b) {
    const std::string range = b.reachable    ? fmt::format("{}-{}", b.from, b.to)
                              : b.blocks > 0 ? fmt::format("{}-{} (cut off)", b.from, b.to)
                                             : fmt::format("{} (cut off)", b.to);
    return std::string(2 * static_cast<size_t>(std::min(b.depth, kDeepest)), ' ') + range;
  };
  for (size_t i = 0; i < shown; i++) width = std::max(width, label(branches[i]).size());
  say("{:<{}}  {:>6}  {:<34}  {:>9}  {}\n", "tokens", width, "blocks", "points at", "size", "last used");
  for (size_t i = 0; i < shown; i++) {
    const CacheBranch& b = branches[i];
    say("{:<{}}  {:>6}  {:<34}  {:>9}  {}\n", label(b), width, b.blocks, points_text(b.points),
        size_text(b.bytes), age_text(b.used_at_ns));
  }
  if (shown < branches.size()) say("... and {} more (--all)\n", branches.size() - shown);
}

Json records_json(const CacheFolder& folder) {
  Json records = Json::array();
  for (const DiskRecord& record : folder.records)
    records.push_back({{"kind", record.kind == RecordKind::block ? "block" : "point"},
                       {"tokens", record.length},
                       {"bytes", record.bytes},
                       {"last_used", static_cast<double>(record.used_at_ns / 1'000'000) / 1e3},
                       {"key", to_hex(record.key)},
                       {"parent", to_hex(record.parent)}});
  return records;
}

Result<int> list(const StatesOptions& options, const std::string& directory) {
  TRY(const auto folders, list_cache(directory));
  const ImageFiles images = images_on_disk(directory);
  if (options.json) {
    Json list = Json::array();
    for (const CacheFolder& folder : folders) {
      list.push_back(head_json(folder));
      list.back()["records"] = records_json(folder);
    }
    print_json({{"directory", directory}, {"fingerprints", list}, {"images", images_json(images)}});
    return 0;
  }
  const Sum sum = sum_of(folders);
  say("{}: {}, {}, {}\n", directory, count_text(sum.records(), "record"), size_text(sum.bytes),
      images_text(images));
  for (const CacheFolder& folder : folders) {
    print_head(folder);
    print_branches(folder, options.all);
  }
  return 0;
}

// ---- stats

// Bytes of all records per 1000 tokens of the blocks. For hybrid models most of it is points.
Json per_1k(const Sum& sum) {
  if (sum.tokens() == 0) return nullptr;
  return std::llround(static_cast<double>(sum.bytes) * 1000 / static_cast<double>(sum.tokens()));
}

Json sum_json(const Sum& sum) {
  const auto seconds = [](int64_t ns) {
    return ns == 0 ? Json() : Json(static_cast<double>(ns / 1'000'000) / 1e3);
  };
  return {{"records", sum.records()},
          {"blocks", sum.blocks},
          {"points", sum.points},
          {"bytes", sum.bytes},
          {"block_bytes", sum.block_bytes},
          {"point_bytes", sum.bytes - sum.block_bytes},
          {"block_tokens", sum.tokens()},
          {"bytes_per_1k_tokens", per_1k(sum)},
          {"oldest_use", seconds(sum.oldest_ns)},
          {"newest_use", seconds(sum.newest_ns)}};
}

void print_sum(const Sum& sum) {
  say("{:<16} {} of {}, {} tokens\n", "blocks", sum.blocks, size_text(sum.block_bytes), sum.tokens());
  say("{:<16} {} of {}\n", "points", sum.points, size_text(sum.bytes - sum.block_bytes));
  if (sum.tokens() > 0) say("{:<16} {}\n", "per 1000 tokens", size_text(per_1k(sum).get<uint64_t>()));
  if (sum.records() > 0)
    say("{:<16} {} the latest, {} the earliest\n", "last used", age_text(sum.newest_ns),
        age_text(sum.oldest_ns));
}

Result<int> stats(const StatesOptions& options, const std::string& directory) {
  TRY(const auto folders, list_cache(directory));
  const Sum sum = sum_of(folders);
  const ImageFiles images = images_on_disk(directory);
  const auto free = free_space(directory);
  const uint64_t records_budget = default_budget(directory, sum.bytes);
  const uint64_t budget = records_budget + kMostImageDiskBytes;
  if (options.json) {
    Json list = Json::array();
    for (const CacheFolder& folder : folders) {
      list.push_back(head_json(folder));
      list.back().update(sum_json(sum_of(folder)));
    }
    Json json = {{"directory", directory},
                 {"free_bytes", free ? Json(*free) : Json()},
                 {"default_budget_bytes", free ? Json(records_budget) : Json()},
                 {"images", images_json(images)},
                 {"total_bytes", sum.bytes + images.bytes},
                 {"total_budget_bytes", free ? Json(budget) : Json()}};
    json["images"]["default_budget_bytes"] = kMostImageDiskBytes;
    json.update(sum_json(sum));
    json["fingerprints"] = list;
    print_json(json);
    return 0;
  }
  say("{}\n{:<16} {} of {}\n", directory, "records", sum.records(), size_text(sum.bytes));
  say("{:<16} {} of {}\n", "encoded images", images.files, size_text(images.bytes));
  say("{:<16} {}\n", "total", size_text(sum.bytes + images.bytes));
  if (free)
    say("{:<16} {} for records and {} for images, {} free on the disk\n", "default budget",
        size_text(records_budget), size_text(kMostImageDiskBytes), size_text(*free));
  for (const CacheFolder& folder : folders) {
    print_head(folder);
    print_sum(sum_of(folder));
  }
  return 0;
}

// ---- verify

Result<int> verify(const StatesOptions& options, const std::string& directory) {
  TRY(const auto check, verify_records(directory, options.remove_bad));
  const int status = check.bad() > 0 ? 1 : 0;
  if (options.json) {
    print_json({{"directory", directory},
                {"good", check.good},
                {"good_bytes", check.good_bytes},
                {"damaged", check.damaged},
                {"not_ours", check.unusable},
                {"unreadable", check.unreadable},
                {"removed", check.removed},
                {"cut_off", check.orphans},
                {"problems", check.problems}});
    return status;
  }
  for (const std::string& problem : check.problems) say("{}\n", problem);
  say("{} good ({}), {} damaged, {} not ours, {} unreadable, {} removed\n", check.good,
      size_text(check.good_bytes), check.damaged, check.unusable, check.unreadable, check.removed);
  if (check.orphans > 0)
    say("{} of the good cannot be used until a block before them is cached again\n", check.orphans);
  return status;
}

// ---- clear

RecordFilter filter_of(const StatesOptions& options) {
  RecordFilter filter;
  filter.fingerprint = options.fingerprint;
  if (options.older_than_days)
    filter.used_before_ns = unix_nanoseconds() - static_cast<int64_t>(*options.older_than_days * 86400e9);
  return filter;
}

// Sampled turns belong to all models together, so they stay if only one fingerprint's records are removed.
Result<int64_t> clear_turns(const RecordFilter& filter, const std::string& path) {
  if (!filter.fingerprint.empty()) return 0;
  return forget_turns(path, is_empty(filter) ? INT64_MAX : filter.used_before_ns / 1'000'000'000);
}

Result<int> clear(const StatesOptions& options, const std::string& directory) {
  const RecordFilter filter = filter_of(options);
  const std::string turns = directory + "/turns.db";
  if (!options.yes) {
    TRY(const auto folders, list_cache(directory));
    Sum sum;
    for (const CacheFolder& folder : folders)
      for (const DiskRecord& record : records_to_clear(folder, filter)) sum.add(record);
    const ImageFiles images = is_empty(filter) ? images_on_disk(directory) : ImageFiles();
    if (sum.records() > 0 || images.files > 0 ||
        (filter.fingerprint.empty() && access(turns.c_str(), F_OK) == 0)) {
      TRY(const bool yes, confirmed(fmt::format("Remove {} ({}), {}, and turns sampled then, from {}?",
                                                count_text(sum.records(), "record"), size_text(sum.bytes),
                                                images_text(images), directory)));
      if (!yes) return 1;
    }
  }
  TRY(const auto cleared, clear_records(directory, filter));
  TRY(const int64_t removed_turns, clear_turns(filter, turns));
  if (options.json)
    print_json({{"directory", directory},
                {"removed", cleared.files},
                {"removed_bytes", cleared.bytes},
                {"removed_images", images_json(cleared.images)},
                {"removed_turns", removed_turns}});
  else
    say("{} ({}), {} and {} removed\n", count_text(cleared.files, "record"), size_text(cleared.bytes),
        images_text(cleared.images), count_text(static_cast<uint64_t>(removed_turns), "sampled turn"));
  return 0;
}

Result<int> run(const StatesOptions& options) {
  const std::string directory = state_directory(options.directory);
  if (directory.empty())
    return make_error(ErrorKind::invalid,
                      "neither XDG_CACHE_HOME nor HOME names a directory: say --cache-dir");
  if (access(directory.c_str(), F_OK) != 0)
    return make_error(ErrorKind::not_found,
                      "there is no directory {}: nothing was kept there yet, or it is elsewhere "
                      "(--cache-dir)",
                      directory);
  switch (options.action) {
    case StatesOptions::Action::list:
      return list(options, directory);
    case StatesOptions::Action::stats:
      return stats(options, directory);
    case StatesOptions::Action::verify:
      return verify(options, directory);
    case StatesOptions::Action::clear:
      return clear(options, directory);
  }
  return 1;
}

}  // namespace

int run_cache(const StatesOptions& options) {
  const auto result = run(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
