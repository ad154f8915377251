#include <algorithm>
#include <utility>

#include "base/cpu_info.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory_info.h"
#include "decode/spec_stats.h"
#include "engine/engine_impl.h"
#include "ops/open.h"
#include "ops/table.h"

namespace anabranch {
namespace {

// A context that is promised even where memory seems short: what is free changes.
constexpr int kLeastContext = 2048;
// With less room for one request there is nothing to serve.
constexpr int kSmallestContext = 64;

}  // namespace

Result<void> EngineImpl::load() {
  TRY(device_, ops::open_device({options_.device, options_.reference, options_.precise, options_.threads}));
  TRY(loaded_, load_model_(device_));
  if (options_.lossy_skip) TRY_VOID(drop_layers());
  if (!options_.draft_path.empty()) TRY_VOID(load_draft_model());
  auto& info = loaded_.info;
  if (options_.context_length > 0)
    info.context_length = std::min(info.context_length, options_.context_length);
  TRY_VOID(plan_memory());
  describe_thoughts();
  describe_vocabulary();
  spec_.model = loaded_.model.get();
  spec_.draft_model = draft_.model.get();
  use_calibration();
  for (int i = 1; i < kDraftSources; i++)
    if (spec_.has(static_cast<DraftSource>(i))) info.draft_sources.push_back(static_cast<DraftSource>(i));
  const SpecMode& mode = options_.speculation;
  if (!mode.automatic && !spec_.has(mode.source))
    return cannot_draft(mode.source, info, loaded_.model->spec());
  load_statistics();
  return open_cache();
}

// What running requests and the cache may take, and so how long a context may be.
Result<void> EngineImpl::plan_memory() {
  static_assert(kMemoryBlock == ops::kKvBlock && kRoundRows == kMaxTrial);
  auto& info = loaded_.info;
  const SequenceBytes bytes{info.state_bytes + info.draft_state_bytes,
                            info.kv_bytes_per_token + info.draft_kv_bytes_per_token};
  // States lie on the device, what the cache keeps in the machine's memory.
  const bool same = !device_->has_own_memory();
  uint64_t machine = cpu_info().memory_bytes;
  if (const uint64_t limit = memory_limit(); limit > 0) machine = std::min(machine, limit);
  const uint64_t memory = same ? machine : device_->memory_bytes(), free = device_->free_bytes();
  MemoryBudgets budgets;
  if (options_.cache.enabled)
    budgets.cache =
        options_.cache.ram_bytes > 0 ? options_.cache.ram_bytes : std::min<uint64_t>(machine / 8, 8ull << 30);
  budgets.states = options_.memory_bytes;
  if (budgets.states == 0) {
    const uint64_t taken = memory / 32 + (same ? budgets.cache : 0);
    budgets.states = free > 0 ? std::min(memory / 2, free - std::min(free, taken)) : memory / 2;
    budgets.states = std::max(budgets.states, bytes.of(kLeastContext));
  }
  const uint64_t room = budgets.states - std::min(budgets.states, bytes.of(kRoundRows));
  const int fits = bytes.per_token == 0
                       ? info.context_length
                       : static_cast<int>(std::min<uint64_t>(room / bytes.per_token, info.context_length));
  if (const int least = std::min(kSmallestContext, info.context_length); fits < least)
    return make_error(
        ErrorKind::invalid,
        "{} bytes of memory for running requests (--memory) hold a context of {} tokens; give at least {} "
        "bytes, for {} tokens ({} for the model's {})",
        budgets.states, fits, bytes.of(kRoundRows + least), least, bytes.of(kRoundRows + info.context_length),
        info.context_length);
  if (fits < info.context_length) {
    context_note_ = fmt::format(
        "; a context of {} tokens takes {:.1f} GB of memory for one request, and {:.1f} GB are there for "
        "running "
        "requests: free some, or give more with --memory",
        info.context_length, bytes.of(info.context_length) / 1e9, budgets.states / 1e9);
    log_warning("the context is {} tokens long{}", fits, context_note_);
    info.context_length = fits;
  }
  scheduler_.set_bytes(bytes);
  scheduler_.set_budget(budgets.states);
  memory_.emplace(budgets, machine / 32);
  return {};
}

void EngineImpl::use_calibration() {
  // Rates are estimates, and the best of many; 0: not known.
  const auto hopeless = [](double rate) { return rate > 0 && rate < 1.1; };
  const Calibration& c = loaded_.calibration;
  spec_.exit_runs = c.exit_layers;
  for (int i = 0; i < loaded_.info.layers && !c.skip_layers.empty(); i++)
    if (!std::binary_search(c.skip_layers.begin(), c.skip_layers.end(), i)) spec_.skip_runs.push_back(i);
  spec_.only_on_request[static_cast<size_t>(DraftSource::exit)] = hopeless(c.exit_rate);
  spec_.only_on_request[static_cast<size_t>(DraftSource::skip)] = hopeless(c.skip_rate);
}

// What calibration says of layers is not of the model that is left.
Result<void> EngineImpl::drop_layers() {
  const Calibration c = std::exchange(loaded_.calibration, {});
  auto& info = loaded_.info;
  if (c.skip_layers.empty())
    return make_error(ErrorKind::invalid,
                      "--lossy-skip: calibration has not found layers of {} to leave out: run `anabranch "
                      "calibrate -m {}` first",
                      info.name, info.path);
  log_warning("{}", lossy_note(c, info.layers));
  loaded_.model->drop_layers(c.skip_layers);
  describe(*loaded_.model, info);
  info.lossy = true;
  return {};
}

Result<void> EngineImpl::load_draft_model() {
  TRY(draft_, load_model(options_.draft_path, device_, LoadedFor::drafts));
  const auto &ours = *loaded_.tokenizer, &theirs = *draft_.tokenizer;
  bool same = ours.vocab_size() == theirs.vocab_size();
  for (int id = 0; same && id < ours.vocab_size(); id++)
    same = ours.token_bytes(id) == theirs.token_bytes(id);
  if (!same || draft_.model->spec().vocab < loaded_.model->spec().vocab)
    return make_error(ErrorKind::invalid,
                      "{} cannot draft for {}: their tokens differ; a draft model needs the same tokenizer",
                      draft_.info.name, loaded_.info.name);
  auto& info = loaded_.info;
  info.draft_model = draft_.info.name;
  info.draft_model_bytes = draft_.info.weight_bytes;
  info.draft_kv_bytes_per_token += draft_.info.kv_bytes_per_token;
  info.draft_state_bytes += draft_.info.state_bytes + draft_.info.draft_state_bytes;
  return {};
}

// What rounds cost and how often drafts are right depends on model, machine and settings.
void EngineImpl::load_statistics() {
  if (!options_.keep_statistics) return;
  const auto& info = loaded_.info;
  const std::string about =
      fmt::format("{} {} {} {} {} {} {} {}", info.name, info.parameters, info.bytes_per_token,
                  draft_.info.name, draft_.info.bytes_per_token, device_->threads().size(),
                  device_->is_host() ? device_->ops().kernels_name(*device_) : device_->name(),
                  options_.precise + 2 * options_.reference);
  Fnv1a hash;
  for (const char c : about) hash.add(static_cast<uint8_t>(c));
  statistics_path_ = spec_stats_path(fmt::format("{:016x}", hash.value()));
  spec_.costs = SpecCosts(load_spec_stats(statistics_path_));
}

void EngineImpl::save_statistics() const {
  if (!statistics_path_.empty()) save_spec_stats(statistics_path_, spec_.costs.stats());
}

}  // namespace anabranch
