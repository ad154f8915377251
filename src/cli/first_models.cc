#include "cli/first_models.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/white_space.h"
#include "cli/print.h"
#include "cli/text.h"
#include "hub/pull.h"

namespace anabranch::cli {
namespace {

// The share of the memory's rate at which weights are read during decoding (docs/benchmarks.md).
constexpr double kShareOfRate = 0.8;
// Tokens per second at which people read; a faster model is not a better one.
constexpr double kReadingSpeed = 8;

// Sizes are those of the hub's files. bytes_per_token leaves out the vision tower, input embeddings that are
// not the output's as well, and the experts that a token does not use. least_memory leaves room for a
// conversation of some thousand tokens.
constexpr KnownModel kKnown[] = {
    {"bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M", 105'454'432, 105'000'000, 300'000'000, true},
    {"unsloth/gemma-3-270m-it-GGUF:Q4_K_M", 253'115'424, 253'000'000, 500'000'000, true},
    {"bartowski/SmolLM2-360M-Instruct-GGUF:Q4_K_M", 270'590'880, 270'000'000, 550'000'000, true},
    {"unsloth/Qwen3.5-0.8B-GGUF:Q4_K_M", 737'504'352, 532'000'000, 1'100'000'000},
    {"unsloth/Qwen3.5-2B-GGUF:Q4_K_M", 1'949'063'104, 1'280'000'000, 2'500'000'000},
    {"unsloth/Qwen3.5-4B-GGUF:Q4_K_M", 3'413'361'504, 2'740'000'000, 4'300'000'000},
    {"unsloth/Qwen3.5-9B-GGUF:Q4_K_M", 6'598'688'544, 5'100'000'000, 8'100'000'000},
    {"unsloth/Qwen3.5-35B-A3B-GGUF:Q4_K_M", 22'915'306'848, 2'100'000'000, 25'500'000'000},
    {"unsloth/Qwen3.5-27B-GGUF:Q4_K_M", 17'668'419'744, 16'000'000'000, 20'500'000'000},
};

bool fits_memory(const KnownModel& model, const MachineRoom& room) {
  return model.least_memory <= room.free_memory;
}

bool fits_disk(const KnownModel& model, const MachineRoom& room) {
  return !room.free_disk || model.download_bytes + hub::kDiskReserve <= *room.free_disk;
}

bool is_stored(const KnownModel& model, const std::vector<ModelOffer>& stored) {
  return std::ranges::find(stored, model.name, &ModelOffer::name) != stored.end();
}

// The place of the best model that answers at reading speed, where speeds are known; else of the smallest.
size_t recommended(const std::vector<KnownModel>& models, const MachineRoom& room) {
  const auto first = std::ranges::find(models, false, &KnownModel::last_resort);
  const size_t least = first == models.end() ? 0 : static_cast<size_t>(first - models.begin());
  for (size_t i = models.size(); i-- > least + 1;) {
    const double rate = expected_rate(models[i].bytes_per_token, room);
    if (rate == 0 || rate >= kReadingSpeed) return i;
  }
  return least;
}

// "about 120 tokens a second", no more exact than it is known.
std::string rate_text(double rate) {
  if (rate == 0) return "";
  if (rate < 10) return fmt::format("about {:.1f} tokens a second", rate);
  const double unit = rate < 100 ? 1 : 10;
  return fmt::format("about {:.0f} tokens a second", std::round(rate / unit) * unit);
}

}  // namespace

std::span<const KnownModel> known_models() {
  return kKnown;
}

uint64_t bytes_per_token(const std::string& name, uint64_t bytes, std::span<const LayerSpec> layers) {
  const auto known = std::ranges::find(kKnown, name, &KnownModel::name);
  if (known != std::end(kKnown)) return known->bytes_per_token;
  const auto is_mixture = [](const LayerSpec& layer) {
    return std::holds_alternative<MoeSpec>(layer.mlp) || std::holds_alternative<MlpAndMoeSpec>(layer.mlp);
  };
  return std::ranges::any_of(layers, is_mixture) ? 0 : bytes;
}

double expected_rate(uint64_t bytes_per_token, const MachineRoom& room) {
  if (bytes_per_token == 0 || room.read_rate <= 0) return 0;
  return 1 / (static_cast<double>(bytes_per_token) / (kShareOfRate * room.read_rate) + room.latency);
}

std::vector<ModelOffer> offers_for(const MachineRoom& room, const std::vector<ModelOffer>& stored,
                                   std::span<const KnownModel> known) {
  std::vector<ModelOffer> offers(stored.begin(), stored.begin() + std::min(stored.size(), kMostStoredOffers));
  std::vector<KnownModel> fitting;
  for (const KnownModel& model : known)
    if (fits_memory(model, room) && fits_disk(model, room) && !is_stored(model, stored))
      fitting.push_back(model);
  const size_t best = recommended(fitting, room);
  const auto offer = [&](size_t at) {
    if (at >= fitting.size() || offers.size() == kMostOffers) return;
    const KnownModel& model = fitting[at];
    offers.push_back({model.name, model.download_bytes, false, model.bytes_per_token});
  };
  offer(best);
  for (size_t away = 1; away < fitting.size(); away++) {
    if (away <= best) offer(best - away);
    offer(best + away);
  }
  return offers;
}

std::string why_no_offer(const MachineRoom& room, std::span<const KnownModel> known) {
  if (known.empty()) return "no model is stored here, and --offline or HF_HUB_OFFLINE forbids to pull one";
  const KnownModel& smallest = known.front();
  if (!fits_memory(smallest, room))
    return fmt::format(
        "{} of memory are free, and the smallest model that could be offered takes {}: end other programs",
        size_text(room.free_memory), size_text(smallest.least_memory));
  return fmt::format(
      "{} of the disk for models are free, and the smallest model that could be offered takes {}: free some, "
      "or name "
      "a folder on another disk with HF_HUB_CACHE",
      size_text(room.free_disk.value_or(0)), size_text(smallest.download_bytes));
}

std::string offers_text(const std::vector<ModelOffer>& offers, const MachineRoom& room) {
  size_t width = 0;
  for (const ModelOffer& offer : offers) width = std::max(width, offer.name.size());
  std::string text;
  for (size_t i = 0; i < offers.size(); i++) {
    const ModelOffer& offer = offers[i];
    std::string line = line_of("  {}  {:<{}}  {:>8} {}", i + 1, offer.name, width, size_text(offer.bytes),
                               offer.stored ? "stored here" : "to download");
    if (const auto rate = rate_text(expected_rate(offer.bytes_per_token, room)); !rate.empty())
      line += "  " + rate;
    text += line + "\n";
  }
  return text;
}

std::optional<size_t> offer_named(const std::string& answer, size_t offers) {
  const std::string_view text = trimmed(answer);
  if (text.empty()) return 0;
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > offers)
    return std::nullopt;
  return number - 1;
}

}  // namespace anabranch::cli
