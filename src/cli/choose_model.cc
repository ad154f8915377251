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

// A device, and what it can run.
struct Machine {
  std::unique_ptr<Device> device;
  MachineRoom room;
  std::vector<ModelOffer> offers;
};

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
  return ModelOffer{model.name, model.bytes, true, bytes_per_token(model.name, model.bytes, spec->layers)};
}

// The stored models, the newest first, and that of a clone last. Only as many as are shown are checked.
std::vector<ModelOffer> stored_offers(const Device& device, uint64_t free_memory) {
  std::vector<hub::StoredModel> models;
  if (auto stored = stored_models()) models = std::move(*stored);
  std::ranges::stable_sort(models, std::greater(), &hub::StoredModel::modified_ns);
  if (const auto own = model_of_clone()) models.push_back(*own);
  std::vector<ModelOffer> offers;
  for (const auto& model : models) {
    if (offers.size() >= kMostStoredOffers) {
      if (model.problem.empty()) offers.push_back({model.name, model.bytes, true});
    } else if (const auto offer = offer_of(model, device, free_memory)) {
      offers.push_back(*offer);
    }
  }
  return offers;
}

MachineRoom room_of(Device& device, uint64_t free_memory, const std::string& disk) {
  MachineRoom room;
  room.free_memory = free_memory;
  room.free_disk = hub::free_disk(disk);
  room.read_rate = ops::measure_limits(device).memory_gb_s * 1e9;
  room.latency = device.has_own_memory() ? kGpuLatency : 0;
  return room;
}

// No offers if less than least_memory is free: then nothing is measured.
Result<Machine> machine_with(const ops::DeviceOptions& options, const std::string& disk,
                             std::span<const KnownModel> known, uint64_t least_memory) {
  Machine machine;
  TRY(machine.device, ops::open_device(options));
  Device& device = *machine.device;
  uint64_t free_memory = free_memory_of(device);
  if (free_memory == 0 && !device.has_own_memory()) free_memory = memory_of(device);  // it is not known
  if (free_memory < least_memory) return machine;
  machine.room = room_of(device, free_memory, disk);
  machine.offers = offers_for(machine.room, stored_offers(device, free_memory), known);
  return machine;
}

// The GPU, if any device may be chosen and there is one that can run a model; else the device of the options.
Result<Machine> choose_machine(const ops::DeviceOptions& options, bool any_device, const std::string& disk,
                               std::span<const KnownModel> known) {
  if (any_device && ops::cuda_unsupported().empty()) {
    ops::DeviceOptions gpu = options;
    gpu.name = "cuda";
    auto machine = machine_with(gpu, disk, known, known_models().front().least_memory);
    if (machine && !machine->offers.empty())
      return machine;  // else other flags exclude it, or it is busy or small
  }
  return machine_with(options, disk, known, 0);
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
  const auto known = settings.offline ? std::span<const KnownModel>() : known_models();
  TRY(const auto machine, choose_machine(options, any_device, settings.cache, known));
  const auto& [device, room, offers] = machine;
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
