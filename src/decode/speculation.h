// Plain data types of speculation, shared by drafters, controller and engine.
//
// A round: a drafter proposes n >= 0 tokens; the full model verifies them in one pass of n + 1 rows (the last
// sampled token, then the drafts); the first `accepted` of them equal the model's own samples, and
// accepted + 1 tokens come out. n = 0 is plain decoding.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace anabranch {

enum class DraftSource { none, ngram, mtp, draft, exit, skip };

constexpr int kDraftSources = 6;  // including `none`
constexpr int kMaxDraft = 15;     // a window of 16 rows

constexpr std::array<const char*, kDraftSources> kDraftSourceNames = {"none",  "ngram", "mtp",
                                                                      "draft", "exit",  "skip"};

constexpr const char* name_of(DraftSource source) {
  return kDraftSourceNames[static_cast<int>(source)];
}

constexpr std::optional<DraftSource> source_named(std::string_view name) {
  for (int i = 0; i < kDraftSources; i++)
    if (name == kDraftSourceNames[i]) return static_cast<DraftSource>(i);
  return std::nullopt;
}

// The mode that the user chose (--spec, --spec-depth).
struct SpecMode {
  bool automatic = true;                   // the controller chooses source and depth; `source` is ignored
  DraftSource source = DraftSource::none;  // when not automatic; none = no speculation
  int depth = 0;  // drafts in each round, 0 = the controller chooses; with automatic: the most drafts
};

// name: "auto", "off" or a draft source. depth: 0 if not given. Errors: invalid (another name; a depth
// without drafts).
Result<SpecMode> parse_spec_mode(std::string_view name, int depth);

// Limits of one round; the caller gives them for every round.
struct RoundLimits {
  int max_drafts = 0;  // from token budget, window and context; <= 0: plain decoding
  std::array<bool, kDraftSources> available{};
  int ngram_length = 0;  // tokens of the available n-gram proposal, 0 = none
  int ngram_match = 0;   // trust in it, as a number of matching tokens (trusted_match() in speculator.cc)
};

// depth is 0 exactly when source is none.
struct DraftDecision {
  DraftSource source = DraftSource::none;
  int depth = 0;
};

struct RoundResult {
  DraftSource source = DraftSource::none;
  int drafted = 0, accepted = 0;  // accepted <= drafted <= kMaxDraft; drafted may be less than was chosen
  int ngram_match = 0;            // of the proposal, for DraftSource::ngram
  double draft_s = 0;             // seconds spent drafting
  double verify_s = 0;            // seconds of the rest of the round: pass, sampling, commit; 0 = not known
  bool counts = true;  // false: the request ended, so the draft token after `accepted` was not judged
};

// Statistics of one sequence, or summed over many.
struct SpecCounters {
  struct Source {
    long rounds = 0, drafted = 0, accepted = 0;
    // [i]: how often draft i + 1 was proposed, and accepted.
    std::array<long, kMaxDraft> drafted_at{}, accepted_at{};
    double draft_s = 0, verify_s = 0;
  };
  // By DraftSource; `none` has the plain rounds and their time.
  std::array<Source, kDraftSources> sources;

  void add(const RoundResult& result);
  SpecCounters& operator+=(const SpecCounters& other);
  const Source& of(DraftSource source) const { return sources[static_cast<int>(source)]; }
};

}  // namespace anabranch
