#include "decode/speculator.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace anabranch {

bool SpecResources::has(DraftSource source) const {
  switch (source) {
    case DraftSource::none:
    case DraftSource::ngram:
      return true;
    case DraftSource::mtp:
      return model->has_mtp();
    case DraftSource::draft:
      return draft_model != nullptr;
    case DraftSource::exit:
      return !exit_runs.empty();
    case DraftSource::skip:
      return !skip_runs.empty();
  }
  return false;
}

Speculator::Speculator(SpecResources& resources, const SpecMode& mode)
    : resources_(resources), mode_(mode), controller_(resources.costs, mode) {}

bool Speculator::may_use(DraftSource source) const {
  const bool wanted =
      mode_.automatic ? !resources_.only_on_request[static_cast<size_t>(source)] : mode_.source == source;
  return wanted && resources_.has(source) && !failed_[static_cast<size_t>(source)];
}

bool Speculator::can_draft(DraftSource source, size_t tokens) {
  return may_use(source) && (source == DraftSource::ngram || drafter(source).can_draft(tokens));
}

Drafter& Speculator::drafter(DraftSource source) {
  auto& slot = drafters_[static_cast<size_t>(source)];
  if (slot) return *slot;
  if (source == DraftSource::mtp)
    slot = make_mtp_drafter(*resources_.model);
  else if (source == DraftSource::draft)
    slot = make_model_drafter(*resources_.draft_model);
  else
    slot = make_layers_drafter(*resources_.model,
                               source == DraftSource::exit ? resources_.exit_runs : resources_.skip_runs);
  return *slot;
}

// A drafter that fails (a damaged draft model, say) costs its sequence nothing but drafts.
void Speculator::guarded(DraftSource source, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    log_warning("no more drafts from \"{}\" for this request: {}", name_of(source), e.what());
    failed_[static_cast<size_t>(source)] = true;
    drafters_[static_cast<size_t>(source)].reset();
  }
}

void Speculator::applied(const mx::array& hidden, std::span<const int> tokens) {
  for (const auto source : {DraftSource::mtp, DraftSource::draft})
    if (may_use(source)) guarded(source, [&] { drafter(source).applied(hidden, tokens); });
}

void Speculator::resume(int length, const MtpSnapshot* saved) {
  for (const auto source : {DraftSource::mtp, DraftSource::draft})
    if (may_use(source)) guarded(source, [&] { drafter(source).resume(length, saved); });
}

std::optional<MtpSnapshot> Speculator::save(std::span<const int> tokens) {
  std::optional<MtpSnapshot> saved;
  if (may_use(DraftSource::mtp))
    guarded(DraftSource::mtp, [&] { saved = drafter(DraftSource::mtp).save(tokens); });
  return saved;
}

Draft Speculator::propose(const DraftRequest& request, int others) {
  RoundLimits limits;
  limits.others = others;
  limits.max_drafts = request.count;
  for (int i = 1; i < kDraftSources; i++)
    limits.available[i] = can_draft(static_cast<DraftSource>(i), request.tokens.size());
  NgramIndex::Match match;
  if (limits.available[static_cast<size_t>(DraftSource::ngram)]) {
    match = ngrams_.match(request.tokens);
    limits.ngram_match = match.length;
    limits.ngram_length = match.length > 0 ? std::min(request.count, kMaxDraft) : 0;
  }
  const RoundChoice choice = controller_.choose(limits);
  Draft draft;
  draft.source = choice.source;
  if (choice.depth <= 0) return draft;
  CHECK(choice.depth <= request.count, "{} drafts, {} fit", choice.depth, request.count);
  if (choice.source == DraftSource::ngram) {
    draft.tokens = NgramIndex::follow(request.tokens, match, choice.depth);
    draft.ngram_match = match.length;
  } else {
    draft.tokens = run_drafter(choice, request, draft.seconds);
  }
  // A draft model's table may be padded further than the model's.
  const auto unknown = [&](int id) { return id >= resources_.model->spec().vocab; };
  draft.tokens.erase(std::find_if(draft.tokens.begin(), draft.tokens.end(), unknown), draft.tokens.end());
  return draft;
}

std::vector<int> Speculator::run_drafter(const RoundChoice& choice, const DraftRequest& request,
                                         double& seconds) {
  std::vector<int> tokens;
  guarded(choice.source, [&] {
    Drafter& chosen = drafter(choice.source);
    chosen.prepare(request.tokens);
    const double start = now_seconds();
    tokens = chosen.propose({request.tokens, request.sampling, request.history, choice.depth, request.state});
    seconds = now_seconds() - start;
  });
  return tokens;
}

void Speculator::observe(const Draft& draft, int accepted, double verify_s, bool ended, int others) {
  if (auto& used = drafters_[static_cast<size_t>(draft.source)]) used->observe(accepted);
  RoundResult result;
  result.source = draft.tokens.empty() ? DraftSource::none : draft.source;
  result.drafted = static_cast<int>(draft.tokens.size());
  result.accepted = accepted;
  result.ngram_match = draft.ngram_match;
  result.draft_s = draft.seconds;
  result.verify_s = verify_s;
  result.counts = !ended;
  result.others = others;
  controller_.observe(result);
}

}  // namespace anabranch
