#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "cache/weights_key.h"
#include "engine/engine_impl.h"

namespace anabranch {
namespace {

// Bumped when the same tokens would leave other bits: states kept before are not found then.
constexpr int kStateVersion = 1;

// Where a prompt's states are worth keeping beside where the request says so: in steps that double, so that a
// prompt that parts from this one somewhere finds at least half of it; where others have parted from what is
// kept; and before the last token, so that the same prompt is found again.
constexpr int kFirstKept = 1024, kLeastKept = 32, kLeastBranch = 64;

std::vector<int> places_to_keep(const Request& request, const StateCache& cache, int length, int shared) {
  const int end = static_cast<int>(request.prompt.size());
  std::vector<int> at = request.keep_at;
  if (at.empty()) at.push_back(end - 1);
  if (cache.any_token()) at = {at.back()};  // all between come with it
  for (int64_t n = kFirstKept; n < end && !cache.any_token(); n *= 2) at.push_back(static_cast<int>(n));
  if (shared - length >= kLeastBranch) at.push_back(shared);
  std::erase_if(at, [&](int n) { return n <= length || n >= end || n < kLeastKept; });
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  return at;
}

}  // namespace

Result<void> EngineImpl::open_cache() {
  const CacheOptions& wanted = options_.cache;
  if (!wanted.enabled) return {};
  if (options_.device != "cpu" && wanted.kv == KvForm::q8)
    return make_error(ErrorKind::unsupported,
                      "--cache-kv q8 is for the CPU only: leave it out with --device {}", options_.device);
  TRY(const Fingerprint weights, weights_key(options_.model_path));
  StateCacheOptions options;
  options.device = device_.get();
  options.model = loaded_.model->state_layout();
  if (loaded_.model->has_mtp()) options.mtp = loaded_.model->mtp_layout();
  options.mtp_hidden = loaded_.model->spec().hidden;
  const auto setting = fmt::format("{} {}{}", options_.reference ? "reference" : options_.device,
                                   options_.precise ? "f32" : "f16", wanted.kv == KvForm::q8 ? " q8" : "");
  options.fingerprint = fingerprint_of(
      fmt::format("{} {} {} {}", to_hex(weights), kStateVersion, setting, options_.lossy_skip));
  options.kv = wanted.kv;
  if (wanted.kv == KvForm::q8)
    log_warning(
        "states are kept with keys and values in 8 bits (--cache-kv q8): what follows one may differ from "
        "what a cold run would say");
  options.ram_bytes = memory_->budgets().cache;
  // Which layers are left out may change with the next calibration, and no fingerprint would tell.
  if (!wanted.directory.empty() && !options_.lossy_skip) {
    DiskOptions disk;
    disk.directory = wanted.directory;
    disk.fingerprint = options.fingerprint;
    disk.budget_bytes = wanted.disk_bytes;
    // What waits for a slow disk takes memory, too.
    disk.queue_bytes = std::clamp(options.ram_bytes / 4, uint64_t{32} << 20, disk.queue_bytes);
    std::error_code ignored;
    const auto path = std::filesystem::absolute(info().path, ignored).lexically_normal();
    disk.about = fmt::format("model {}\nsetting {}\npath {}\n", info().name, setting, path.string());
    auto store = DiskStore::open(std::move(disk));
    if (store.ok())
      options.disk = std::move(*store);
    else
      log_warning("states are kept in memory only: {}", store.error().message);
  }
  cache_ = std::make_unique<StateCache>(std::move(options));
  note_cache();
  return {};
}

void EngineImpl::note_cache() {
  auto stats = cache_->stats();
  std::lock_guard lock(mutex_);
  stats_.cache = std::move(stats);
}

// What another one is about to keep of the same beginning need not be computed twice: choices of one request,
// say, come at the same time.
bool EngineImpl::wait_for_alike(Sequence& sequence) {
  const Request& request = sequence.request;
  if (!cache_ || !request.cache) return false;
  const Sequence* best = nullptr;
  int longest = kLeastBranch - 1;
  for (const auto& [id, other] : sequences_) {
    const Request& theirs = other->request;
    if (!other->state || other->keep_at.empty() || other->keep_at.back() <= longest ||
        theirs.priority > request.priority || theirs.cache_salt != request.cache_salt)
      continue;
    const auto common = std::mismatch(sequence.tokens.begin(), sequence.tokens.end() - 1,
                                      other->tokens.begin(), other->tokens.end());
    const int shared = static_cast<int>(common.first - sequence.tokens.begin());
    const auto place = std::upper_bound(other->keep_at.begin(), other->keep_at.end(), shared);
    if (place == other->keep_at.begin() || *(place - 1) <= longest) continue;
    best = other.get();
    longest = *(place - 1);
  }
  if (best) scheduler_.wait_for(sequence.id, best->id, longest);
  return best != nullptr;
}

// Goes on from a kept state, if there is one. first: not from one that the request itself left.
void EngineImpl::resume(Sequence& sequence, bool first) {
  const Request& request = sequence.request;
  if (!cache_ || !request.cache) return;
  auto hit = cache_->find(sequence.tokens, request.cache_salt);
  note_cache();
  sequence.keep_at = places_to_keep(request, *cache_, hit.length, hit.shared);
  const auto line =
      fmt::format("request {}: {} of {} tokens were kept{}", sequence.id, hit.length, sequence.tokens.size(),
                  hit.from_disk ? fmt::format(", {} of them on disk", hit.disk_tokens) : "");
  // New prompts, which share a template's first words at most, are no news.
  const bool tells = hit.length > 0 || hit.shared >= kLeastBranch || hit.lost;
  const auto why = hit.miss.empty() ? "" : ": " + hit.miss;
  tells ? log_info("{}{}", line, why) : log_debug("{}{}", line, why);
  if (hit.length == 0) return;
  sequence.state->restore(hit.state.model);
  sequence.speculator->resume(hit.length, hit.state.mtp ? &*hit.state.mtp : nullptr);
  if (first) sequence.usage.cached_tokens = hit.length;
  scheduler_.advanced(sequence.id, hit.length, 0);
}

// Keeps a state of the sequence; its hidden states so far are known to the speculator, and no further ones.
void EngineImpl::keep(Sequence& sequence, const Snapshot& snapshot) {
  const auto tokens = std::span<const int>(sequence.tokens).first(static_cast<size_t>(snapshot.length));
  cache_->keep(tokens, sequence.request.cache_salt, {snapshot, sequence.speculator->save(tokens)});
  note_cache();
}

// Where the request must go on, or end, whatever becomes of the state: without a snapshot, of the state as it
// is.
void EngineImpl::keep_safely(Sequence& sequence, const Snapshot* snapshot) {
  if (!cache_ || !sequence.request.cache || sequence.state->length() < kLeastKept) return;
  try {
    keep(sequence, snapshot ? *snapshot : sequence.state->snapshot());
  } catch (const std::exception& e) {
    log_warning("a state was not kept: {}", e.what());
  }
}

}  // namespace anabranch
