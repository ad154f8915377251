#include "cli/choose_model.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/first_models.h"
#include "cli/locate.h"
#include "cli/preflight.h"
#include "cli/print.h"
#include "cli/reports.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "engine/loader.h"
#include "engine/memory_plan.h"
#include "hub/settings.h"
#include "hub/store.h"
#include "ops/open.h"
#include "ops/probe.h"

namespace anabranch::cli {
namespace {

constexpr double kGpuLatency = 0.6e-3;  // seconds: launches of a token's kernels (docs/gpu.md)
constexpr size_t kMostAnswerBytes = 4096;

Result<std::unique_ptr<Device>> open_for_choice(ops::DeviceOptions options, bool any_device) {
  if (any_device && ops::cuda_unsupported().empty()) {
    ops::DeviceOptions gpu = options;
    gpu.name = "cuda";
    if (auto device = ops::open_device(gpu)) return device;  // other flags may exclude it
  }
  return ops::open_device(options);
}

// The weights that a token reads; 0: not known, as of mixtures of experts.
uint64_t bytes_per_token(const hub::StoredModel& model, const ModelSpec& spec) {
  for (const KnownModel& known : known_models())
    if (model.name == known.name) return known.bytes_per_token;
  const bool dense = std::ranges::all_of(
      spec.layers, [](const LayerSpec& layer) { return std::holds_alternative<MlpSpec>(layer.mlp); });
  return dense ? model.bytes : 0;
}

// The stored model as an offer; none: it cannot run here, or does not converse.
std::optional<ModelOffer> offer_of(const hub::StoredModel& model, const Device& device,
                                   uint64_t free_memory) {
  const auto path = model.store.empty() ? Result(model.path) : locate_stored(model.name);
  if (!model.problem.empty() || !weights_problem(model.bytes, free_memory).empty() || !path)
    return std::nullopt;
  if (!why_it_cannot_run(*path).empty()) return std::nullopt;
  const auto checkpoint = Checkpoint::open(*path, Extent::headers);
  if (!checkpoint || read_pooling(**checkpoint)) return std::nullopt;
  const auto conversation = chat_template_source(**checkpoint);
  const auto spec = read_model_spec(**checkpoint, device);
  if (!spec || !conversation || conversation->empty()) return std::nullopt;
  return ModelOffer{model.name, model.bytes, true, bytes_per_token(model, *spec)};
}

// The stored models that can be offered, the newest first, and that of a clone last.
std::vector<ModelOffer> stored_offers(const Device& device, uint64_t free_memory) {
  std::vector<hub::StoredModel> models;
  if (auto stored = stored_models()) models = std::move(*stored);
  std::ranges::stable_sort(models, std::greater(), &hub::StoredModel::modified_ns);
  if (const auto own = model_of_clone()) models.push_back(*own);
  std::vector<ModelOffer> offers;
  for (const auto& model : models)
    if (const auto offer = offer_of(model, device, free_memory)) offers.push_back(*offer);
  return offers;
}

MachineRoom room_of(Device& device, const std::string& disk) {
  MachineRoom room;
  room.free_memory = free_memory_of(device);
  if (room.free_memory == 0) room.free_memory = memory_of(device);
  room.free_disk = hub::free_disk(disk);
  room.read_rate = ops::measure_limits(device).memory_gb_s * 1e9;
  room.latency = device.has_own_memory() ? kGpuLatency : 0;
  return room;
}

// Asks until an answer names an offer. Error: invalid (the input ended).
Result<size_t> ask(size_t offers) {
  while (true) {
    say(stderr, "Which one? (1 to {}, Enter takes 1, Ctrl-C none) ", offers);
    std::fflush(stderr);
    TRY(const auto answer, read_standard_line(kMostAnswerBytes));
    if (!answer) {
      say(stderr, "\n");
      return make_error(ErrorKind::invalid, "no model was chosen: --model names one, --yes takes the first");
    }
    if (const auto chosen = offer_named(*answer, offers)) return *chosen;
    say(stderr, "'{}' is none of the numbers.\n", *answer);
  }
}

}  // namespace

bool can_ask() {
  return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

Result<ModelChoice> choose_model(const std::string& command, const ops::DeviceOptions& options,
                                 bool any_device, bool yes) {
  TRY(const auto settings, hub::settings_from_environment());
  TRY(const auto device, open_for_choice(options, any_device));
  const MachineRoom room = room_of(*device, settings.cache);
  const auto known = settings.offline ? std::span<const KnownModel>() : known_models();
  const auto offers = offers_for(room, stored_offers(*device, room.free_memory), known);
  if (offers.empty()) return make_error(ErrorKind::exhausted, "{}", why_no_offer(room, known));
  const bool quiet = !log_enabled(LogLevel::warning);
  if (!yes || !quiet) {
    say(stderr, "No model is named. {} of memory are free for one{}:\n", size_text(room.free_memory),
        device->has_own_memory() ? " on the GPU" : "");
    say_lines(stderr, offers_text(offers, room));
  }
  size_t chosen = 0;
  if (!yes) {
    TRY(chosen, ask(offers.size()));
  }
  const ModelChoice choice{offers[chosen].name, device->kind() == DeviceKind::cuda ? "cuda" : options.name};
  if (!quiet)
    say(stderr, "This names the model: anabranch {} --model {}{}\n", command, choice.model,
        choice.device == "cpu" ? "" : " --device " + choice.device);
  return choice;
}

}  // namespace anabranch::cli
