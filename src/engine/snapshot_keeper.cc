#include "engine/snapshot_keeper.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/log.h"
#include "cache/weights_key.h"

namespace anabranch {
namespace {

// Incremented when a change makes the same tokens produce different bits, or changes the layout of states.
// States cached before are then not found.
int state_version(DeviceKind device) {
  return device == DeviceKind::cuda ? 2 : 1;
}

// States are cached at the lengths that the request names (by default before the last token, so that the same
// prompt is found again), at lengths that double, so that a prompt that differs somewhere finds at least half
// of the common prefix, and where the prompt diverges from the cached ones.
constexpr int kFirstKept = 1024, kLeastBranch = 64;

std::vector<int> lengths_to_keep(const Request& request, const StateCache& cache, int length, int shared) {
  const int end = static_cast<int>(request.prompt.size());
  std::vector<int> at = request.keep_at;
  if (at.empty()) at.push_back(end - 1);
  if (cache.any_token()) at = {at.back()};  // such a state can be resumed at any token before it
  for (int64_t n = kFirstKept; n < end && !cache.any_token(); n *= 2) at.push_back(static_cast<int>(n));
  if (shared - length >= kLeastBranch) at.push_back(shared);
  std::erase_if(at, [&](int n) { return n <= length || n >= end || n < kLeastKept; });
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  return at;
}

// `length`, or the beginning of an image that must be applied as a whole and would be split there.
int before_image(const Sequence& sequence, int length) {
  if (!sequence.images || !sequence.images->see_each_other) return length;
  const PromptImage* image = sequence.images->at(length);
  return image ? image->begin : length;
}

std::unique_ptr<DiskStore> open_disk(const CacheOptions& wanted, const StateCacheOptions& options,
                                     const std::string& setting, const ModelInfo& info) {
  DiskOptions disk;
  disk.directory = wanted.directory;
  disk.fingerprint = options.fingerprint;
  disk.budget_bytes = wanted.disk_bytes.value_or(0);
  // The queue of records for a slow disk takes memory, too, so it is bounded.
  disk.queue_bytes = std::clamp(options.ram_bytes / 4, uint64_t{32} << 20, disk.queue_bytes);
  std::error_code ignored;
  const auto path = std::filesystem::absolute(info.path, ignored).lexically_normal();
  disk.about = fmt::format("model {}\nsetting {}\npath {}\n", info.name, setting, path.string());
  auto store = DiskStore::open(std::move(disk));
  if (store.ok()) return std::move(*store);
  log_warning("the prefix cache is in memory only: {}", store.error().message);
  return nullptr;
}

}  // namespace

Result<SnapshotKeeper> SnapshotKeeper::open(const EngineOptions& engine, const EngineModel& model,
                                            uint64_t ram_bytes) {
  SnapshotKeeper keeper;
  const CacheOptions& wanted = engine.cache;
  if (!wanted.enabled) return keeper;
  if (engine.device.name != "cpu" && wanted.kv == KvFormat::q8)
    return make_error(ErrorKind::unsupported,
                      "--cache-kv q8 is for the CPU only: leave it out with --device {}", engine.device.name);
  TRY(const Fingerprint weights, weights_key(engine.model_path, wanted.directory));
  StateCacheOptions options;
  options.device = &model.device();
  options.model = model.model().state_layout();
  options.devices = model.model().state_devices();
  if (model.model().has_mtp()) options.mtp = model.model().mtp_layout();
  options.mtp_hidden = model.model().spec().hidden;
  const int ranks = model.model().ranks();
  const auto setting =
      fmt::format("{} {}{}{}", engine.device.reference ? "reference" : engine.device.name,
                  engine.device.precise ? "f32" : "f16", wanted.kv == KvFormat::q8 ? " q8" : "",
                  ranks > 1 ? fmt::format(" in {} parts", ranks) : "");
  const bool windows = std::ranges::any_of(options.model, [](const LayerLayout& layer) {
    const auto* kv = std::get_if<KvLayout>(&layer);
    return kv && is_windowed(*kv);
  });
  std::string tower;  // describes a tower in a file of its own, which `weights` does not cover
  if (const std::string& path = model.loaded().tower_path; !path.empty()) {
    TRY(const Fingerprint key, weights_key(path, wanted.directory));
    tower = " images " + to_hex(key);
  }
  // The tower's output also depends on how pixels are normalised.
  if (const ImageFormat* format = model.image_format()) {
    const ImageProcessor& by = format->processor;
    tower += fmt::format(" pixels {} {} {} {} {} {}", by.patch, by.temporal_patch, by.merge, by.size,
                         fmt::join(by.mean, ","), fmt::join(by.std, ","));
  }
  options.fingerprint =
      fingerprint_of(fmt::format("{} {} {} {}{}{}", to_hex(weights), state_version(model.device().kind()),
                                 setting, engine.lossy_skip, windows ? " windows" : "", tower));
  options.kv = wanted.kv;
  if (wanted.kv == KvFormat::q8)
    log_warning(
        "the prefix cache holds keys and values in 8 bits (--cache-kv q8): answers after a cached prefix may "
        "differ from those without the cache");
  options.ram_bytes = ram_bytes;
  options.disk_worth_s = wanted.disk_worth_s;
  // The fingerprint does not cover which layers were left out, and the next calibration may change them.
  if (!wanted.directory.empty() && wanted.disk_bytes != 0 && !engine.lossy_skip)
    options.disk = open_disk(wanted, options, setting, model.info());
  if (!wanted.events.empty()) {
    TRY(options.events, KvEvents::open(wanted.events));
  }
  if (options.disk) {
    const DiskStats disk = options.disk->stats();
    log_info("prefix cache: {:.1f} of {:.1f} GB on disk in {}, up to {:.1f} GB in memory", disk.bytes / 1e9,
             disk.budget_bytes / 1e9, wanted.directory, ram_bytes / 1e9);
  }
  keeper.cache_ = std::make_unique<StateCache>(std::move(options));
  return keeper;
}

// If a running request is about to cache the same prefix (for example with n > 1), wait and reuse it.
std::optional<SnapshotKeeper::Promise> SnapshotKeeper::promise_of(const Sequence& sequence,
                                                                  const Sequences& others) const {
  const Request& request = sequence.request;
  std::optional<Promise> best;
  if (!cache_ || !request.cache) return best;
  int longest = kLeastBranch - 1;
  for (const auto& [id, other] : others) {
    const Request& theirs = other->request;
    if (!other->state || other->keep_at.empty() || other->keep_at.back() <= longest ||
        theirs.priority > request.priority || theirs.cache_salt != request.cache_salt)
      continue;
    const auto common = std::mismatch(sequence.tokens.begin(), sequence.tokens.end() - 1,
                                      other->tokens.begin(), other->tokens.end());
    const int shared = static_cast<int>(common.first - sequence.tokens.begin());
    const auto kept = std::upper_bound(other->keep_at.begin(), other->keep_at.end(), shared);
    if (kept == other->keep_at.begin() || *(kept - 1) <= longest) continue;
    longest = *(kept - 1);
    best = Promise{other->id, longest};
  }
  return best;
}

int SnapshotKeeper::covered(const Sequence& sequence) const {
  const Request& request = sequence.request;
  return cache_ && request.cache ? cache_->kept_here(sequence.tokens, request.cache_salt).length : 0;
}

int SnapshotKeeper::resume(Sequence& sequence) {
  const Request& request = sequence.request;
  if (!cache_ || !request.cache) return 0;
  auto hit = cache_->find(sequence.tokens, request.cache_salt);
  for (int at; (at = before_image(sequence, hit.length)) < hit.length;) {
    const std::span<const int> shorter = sequence.tokens;
    hit = cache_->find(shorter.first(static_cast<size_t>(at) + 1), request.cache_salt);
  }
  sequence.keep_at = lengths_to_keep(request, *cache_, hit.length, hit.shared);
  for (int& length : sequence.keep_at) length = before_image(sequence, length);
  std::erase_if(sequence.keep_at, [&](int length) { return length <= hit.length || length < kLeastKept; });
  sequence.keep_at.erase(std::unique(sequence.keep_at.begin(), sequence.keep_at.end()),
                         sequence.keep_at.end());
  const auto line = fmt::format("request {}: {} of {} tokens were cached{}", sequence.id, hit.length,
                                sequence.tokens.size(),
                                hit.from_disk ? fmt::format(", {} of them on disk", hit.disk_tokens) : "");
  // Entirely new prompts, which share at most the template's first words, are logged at debug level only.
  const bool tells = hit.length > 0 || hit.shared >= kLeastBranch || hit.lost;
  const auto why = hit.miss.empty() ? "" : ": " + hit.miss;
  tells ? log_info("{}{}", line, why) : log_debug("{}{}", line, why);
  if (hit.length == 0) return 0;
  sequence.kept_at.push_back(hit.length);
  sequence.state->restore(hit.state.model);
  sequence.speculator->resume(hit.length, hit.state.mtp ? &*hit.state.mtp : nullptr);
  return hit.length;
}

template <class Take>
void SnapshotKeeper::keep_safely(Sequence& sequence, const Take& take) {
  if (!cache_ || !sequence.request.cache || sequence.state->length() < kLeastKept) return;
  try {
    const Snapshot& snapshot = take();
    const auto tokens = std::span<const int>(sequence.tokens).first(static_cast<size_t>(snapshot.length));
    note_speed(sequence, snapshot.length);
    cache_->keep(tokens, sequence.request.cache_salt, {snapshot, sequence.speculator->save(tokens)},
                 token_s_);
    sequence.kept_at.push_back(snapshot.length);
  } catch (const std::exception& e) {
    log_warning("a prefix was not cached: {}", e.what());
  }
}

// Measures the time per prompt token of a prefill that just ended. Keeps the minimum, because slower prefills
// shared the machine with other work.
void SnapshotKeeper::note_speed(const Sequence& sequence, int length) {
  const int computed = length - sequence.usage.cached_tokens;
  if (sequence.usage.completion_tokens > 0 || computed < kLeastKept) return;
  const double token_s = (now_seconds() - sequence.started) / computed;
  token_s_ = token_s_ > 0 ? std::min(token_s_, token_s) : token_s;
}

void SnapshotKeeper::keep(Sequence& sequence) {
  keep_safely(sequence, [&] { return sequence.state->snapshot(); });
}
void SnapshotKeeper::keep(Sequence& sequence, const Snapshot& snapshot) {
  keep_safely(sequence, [&]() -> const Snapshot& { return snapshot; });
}

std::vector<std::string> SnapshotKeeper::names_of(const Sequence& sequence) const {
  std::vector<std::string> names;
  if (!cache_ || sequence.kept_at.empty()) return names;
  const auto longest = static_cast<size_t>(std::ranges::max(sequence.kept_at));
  for (const DiskRecord& record : records_of(cache_->fingerprint(), sequence.request.cache_salt,
                                             std::span(sequence.tokens).first(longest), sequence.kept_at))
    names.push_back(full_name(record));
  return names;
}

void SnapshotKeeper::set_ram_budget(uint64_t bytes) {
  if (cache_) cache_->set_ram_budget(bytes);
}

std::optional<StateCacheStats> SnapshotKeeper::stats() const {
  return cache_ ? std::optional(cache_->stats()) : std::nullopt;
}

}  // namespace anabranch
