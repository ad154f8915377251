// The models that are offered to somebody who names none: a table of models on the hub, and the choice of
// those that suit a machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/model_spec.h"

namespace anabranch::cli {

struct KnownModel {
  const char* name;          // as --model takes it
  uint64_t download_bytes;   // weights, and the vision tower that comes with them
  uint64_t bytes_per_token;  // weights that are read for each token of an answer
  uint64_t least_memory;     // free memory for the weights and a conversation
  bool last_resort = false;  // not recommended while a better one fits, however slow that is
};

// A later model gives better answers than an earlier one.
std::span<const KnownModel> known_models();

// What decides which models suit a machine.
struct MachineRoom {
  uint64_t free_memory = 0;           // of the device that computes
  std::optional<uint64_t> free_disk;  // where downloads go; none: not known
  double read_rate = 0;               // bytes per second from that memory; 0: not known
  double latency = 0;                 // seconds that a token takes beside reading
};

struct ModelOffer {
  std::string name;
  uint64_t bytes = 0;            // to download, or stored
  bool stored = false;           // here already
  uint64_t bytes_per_token = 0;  // 0: not known
};

inline constexpr size_t kMostOffers = 3, kMostStoredOffers = 2;

// The weights that a token reads of a model with these layers; 0: not known, because it has mixtures of
// experts.
uint64_t bytes_per_token(const std::string& name, uint64_t bytes, std::span<const LayerSpec> layers);

// Tokens per second that can be expected; 0: not known.
double expected_rate(uint64_t bytes_per_token, const MachineRoom& room);

// The offers, the first one recommended: first the stored models (the first kMostStoredOffers of `stored`);
// then, of the known models that fit and are not stored, the best that answers at reading speed (or else the
// smallest that is no last resort) and its neighbours in the table. Empty: nothing fits.
std::vector<ModelOffer> offers_for(const MachineRoom& room, const std::vector<ModelOffer>& stored,
                                   std::span<const KnownModel> known);

// Why offers_for() found nothing, and what to do.
std::string why_no_offer(const MachineRoom& room, std::span<const KnownModel> known);

// The offers as a numbered table, a line for each.
std::string offers_text(const std::vector<ModelOffer>& offers, const MachineRoom& room);

// The offer that a person's answer names: its number, or an empty line for the first. None: another text.
std::optional<size_t> offer_named(const std::string& answer, size_t offers);

}  // namespace anabranch::cli
