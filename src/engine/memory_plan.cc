#include "engine/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "base/cpu_info.h"
#include "base/log.h"
#include "base/memory_info.h"

namespace anabranch {
namespace {

// The least context for which the default budget always has room: free memory varies, so a low reading at
// start must not limit the context further.
constexpr int kLeastContext = 2048;
// An explicit budget with less room than this for one request is refused.
constexpr int kSmallestContext = 64;

MemoryBudgets choose_budgets(const EngineOptions& options, const SequenceBytes& sequence, uint64_t machine,
                             uint64_t for_images, const Device& device) {
  // Running states are in the device's memory, cached states in the machine's.
  const bool same = !device.has_own_memory();
  const uint64_t memory = same ? machine : device.memory_bytes(), free = device.free_bytes();
  MemoryBudgets budgets;
  if (options.cache.enabled)
    budgets.cache =
        options.cache.ram_bytes > 0 ? options.cache.ram_bytes : std::min<uint64_t>(machine / 8, 8ull << 30);
  budgets.states = options.memory_bytes;
  if (budgets.states > 0) return budgets;
  const uint64_t taken = memory / 32 + for_images + (same ? budgets.cache : 0);
  budgets.states = free > 0 ? std::min(memory / 2, free - std::min(free, taken)) : memory / 2;
  budgets.states = std::max(budgets.states, sequence.of(kLeastContext));
  return budgets;
}

}  // namespace

std::string weights_problem(uint64_t weights, uint64_t available) {
  // Running needs memory for states, activations and the tokenizer, too.
  const uint64_t needed = weights + weights / 32;
  if (available == 0 || needed <= available) return {};
  return fmt::format(
      "{:.1f} GB of weights are more than the {:.1f} GB of memory that are free: the system would swap, or "
      "end this "
      "program. About {:.0f} billion parameters in 4 bits fit; end other programs, or take a smaller model "
      "or "
      "quantisation (`anabranch convert`)",
      weights / 1e9, available / 1e9, std::floor(available / 0.6e9));
}

Result<MemoryPlan> plan_memory(const EngineOptions& options, const ModelInfo& info, const Device& device) {
  MemoryPlan plan;
  plan.sequence = {info.state_bytes + info.draft_state_bytes,
                   info.kv_bytes_per_token + info.draft_kv_bytes_per_token};
  uint64_t machine = cpu_info().memory_bytes;
  if (const uint64_t limit = memory_limit(); limit > 0) machine = std::min(machine, limit);
  plan.reserve = machine / 32;
  plan.budgets = choose_budgets(options, plan.sequence, machine, info.image_bytes, device);
  plan.context_length = info.context_length;
  const SequenceBytes& bytes = plan.sequence;
  const uint64_t budget = plan.budgets.states, room = budget - std::min(budget, bytes.of(kMaxDraftTokens));
  const int fits = bytes.per_token == 0
                       ? info.context_length
                       : static_cast<int>(std::min<uint64_t>(room / bytes.per_token, info.context_length));
  if (const int least = std::min(kSmallestContext, info.context_length); fits < least)
    return make_error(
        ErrorKind::invalid,
        "{} bytes of memory for running requests (--memory) hold a context of {} tokens; give at least {} "
        "bytes, for {} tokens ({} for the model's {})",
        budget, fits, bytes.of(kMaxDraftTokens + least), least,
        bytes.of(kMaxDraftTokens + info.context_length), info.context_length);
  if (fits == info.context_length) return plan;
  plan.context_note = fmt::format(
      "; a context of {} tokens takes {:.1f} GB of memory for one request, and {:.1f} GB are there for "
      "running requests: free some, or give more with --memory",
      info.context_length, bytes.of(info.context_length) / 1e9, budget / 1e9);
  log_warning("the context is {} tokens long{}", fits, plan.context_note);
  plan.context_length = fits;
  return plan;
}

}  // namespace anabranch
