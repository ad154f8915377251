#include "decode/speculator.h"

#include <algorithm>
#include <new>

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

namespace {

// How far a proposal can be trusted, as the equivalent length of a match at one place of the sequence itself.
// On bench/prompts, proposals of the same equivalent length are right equally often. If several matches
// agree, their length counts twice; that of a match in another answer counts half. 0: the proposal is hardly
// ever right.
int trusted_match(const SuffixIndex::Proposal& proposal, bool own) {
  if (5 * proposal.agree < 4 * proposal.matches) return 0;
  const int match = proposal.match * (proposal.matches > 1 ? 2 : 1);
  return own ? match : match == 2 ? 0 : (match + 1) / 2;
}

}  // namespace

Speculator::Speculator(SpecResources& resources, const SpecMode& mode, std::optional<std::string> salt,
                       const PromptImages* images)
    : resources_(resources),
      mode_(mode),
      controller_(resources.costs, mode),
      salt_(std::move(salt)),
      images_(images) {}

void Speculator::ended(std::span<const int> answer) {
  if (!salt_ || !may_use(DraftSource::ngram)) return;
  try {
    resources_.answers.add(*salt_, answer);
  } catch (const std::bad_alloc&) {  // the request already has its answer; later drafts do without it
    log_warning("no memory to keep an answer for drafts: recent answers are forgotten");
    resources_.answers = RecentAnswers();
  }
}

bool Speculator::may_use(DraftSource source) const {
  const bool wanted =
      mode_.automatic ? !resources_.only_on_request[static_cast<size_t>(source)] : mode_.source == source;
  const bool blind = images_ && source == DraftSource::draft;
  return wanted && !blind && resources_.has(source) && !failed_[static_cast<size_t>(source)];
}

bool Speculator::can_draft(DraftSource source, size_t tokens) {
  return may_use(source) && (source == DraftSource::ngram || drafter(source).can_draft(tokens));
}

Drafter& Speculator::drafter(DraftSource source) {
  auto& slot = drafters_[static_cast<size_t>(source)];
  if (slot) return *slot;
  if (source == DraftSource::mtp)
    slot = make_mtp_drafter(*resources_.model, images_);
  else if (source == DraftSource::draft)
    slot = make_model_drafter(*resources_.draft_model);
  else
    slot = make_layers_drafter(*resources_.model,
                               source == DraftSource::exit ? resources_.exit_runs : resources_.skip_runs);
  return *slot;
}

// A drafter that fails (for example because the draft model is damaged) costs its sequence only the drafts.
void Speculator::guarded(DraftSource source, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    give_up(source, e);
  }
}

void Speculator::give_up(DraftSource source, const std::exception& e) {
  log_warning("no more drafts from \"{}\" for this request: {}", name_of(source), e.what());
  failed_[static_cast<size_t>(source)] = true;
  drafters_[static_cast<size_t>(source)].reset();
}

void Speculator::applied(const HiddenRows& hidden, std::span<const int> tokens, bool busy) {
  for (const auto source : {DraftSource::mtp, DraftSource::draft})
    if (may_use(source)) {
      const bool parked = busy && mode_.automatic && resources_.planner.parked(source);
      guarded(source, [&] { drafter(source).applied(hidden, tokens, parked); });
    }
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

RoundLimits Speculator::limits_of(const DraftRequest& request) {
  RoundLimits limits;
  limits.max_drafts = request.count;
  for (int i = 1; i < kDraftSources; i++)
    limits.available[i] = can_draft(static_cast<DraftSource>(i), request.tokens.size());
  copy_.clear();
  if (limits.available[static_cast<size_t>(DraftSource::ngram)]) {
    find_copy(request);
    limits.ngram_match = copy_match_;
    limits.ngram_length = static_cast<int>(copy_.size());
  }
  return limits;
}

// The n-gram proposal: from the sequence itself, or from another answer if that can be trusted more.
void Speculator::find_copy(const DraftRequest& request) {
  own_.append(request.tokens.subspan(own_.size()));
  const int count = std::clamp(request.count, 0, kMaxDraft);
  auto found = own_.find_own(count);
  copy_match_ = trusted_match(found, true);
  if (salt_) {
    auto other = resources_.answers.find(*salt_, request.tokens, count);
    const int match = trusted_match(other, false);
    if (match > copy_match_) {
      found = std::move(other);
      copy_match_ = match;
    }
  }
  if (copy_match_ > 0) copy_ = std::move(found.tokens);
}

void Speculator::observe(const Draft& draft, int accepted, double verify_s, bool ended, bool shared) {
  if (auto& used = drafters_[static_cast<size_t>(draft.source)]) used->observe(accepted);
  RoundResult result;
  result.source = draft.tokens.empty() ? DraftSource::none : draft.source;
  result.drafted = static_cast<int>(draft.tokens.size());
  result.accepted = accepted;
  result.ngram_match = draft.ngram_match;
  result.draft_s = draft.seconds;
  result.verify_s = verify_s;
  result.counts = !ended;
  shared ? controller_.observe_shared(result) : controller_.observe(result);
}

// The sequences that draft with one kind of drafter.
struct Speculator::Group {
  std::vector<DraftJob*> jobs;
  std::vector<DraftWork> works;
};

void Speculator::follow_choice(DraftJob& job, const DraftDecision& choice, std::span<Group> groups) {
  job.draft.source = choice.source;
  if (choice.depth <= 0) return;
  CHECK(choice.depth <= job.request.count, "{} drafts, {} fit", choice.depth, job.request.count);
  if (choice.source == DraftSource::ngram) {
    const auto length = std::min(copy_.size(), static_cast<size_t>(choice.depth));
    job.draft.tokens.assign(copy_.begin(), copy_.begin() + static_cast<std::ptrdiff_t>(length));
    job.draft.ngram_match = copy_match_;
    return;
  }
  guarded(choice.source, [&] {
    Drafter& chosen = drafter(choice.source);
    chosen.prepare(job.request.tokens);
    DraftRequest request = job.request;
    request.count = choice.depth;
    Group& group = groups[static_cast<size_t>(choice.source)];
    group.works.push_back({&chosen, request});
    group.jobs.push_back(&job);
  });
}

void Speculator::run(Group& group, DraftSource source, DraftTimes& times) {
  const double start = now_seconds();
  try {
    propose_together(group.works);
  } catch (const std::exception& e) {
    for (DraftJob* job : group.jobs) job->speculator->give_up(source, e);
    return;
  }
  const double seconds = now_seconds() - start;
  for (size_t i = 0; i < group.jobs.size(); i++) {
    times.levels = std::max(times.levels, group.works[i].request.count);
    DraftJob& job = *group.jobs[i];
    DraftWork& work = group.works[i];
    job.speculator->guarded(source, [&] {
      if (work.failure) std::rethrow_exception(work.failure);
      job.draft.tokens = std::move(work.tokens);
    });
    job.draft.seconds = seconds / static_cast<double>(group.jobs.size());
  }
  times.source = times.chains > 0 ? DraftSource::none : source;
  times.chains += static_cast<int>(group.jobs.size());
  times.seconds += seconds;
}

std::vector<DraftDecision> Speculator::choose(SpecResources& resources, std::span<DraftJob> jobs,
                                              int sequences, bool measured) {
  std::vector<DraftCandidate> limits;
  for (DraftJob& job : jobs)
    limits.push_back({&job.speculator->controller_, job.speculator->limits_of(job.request)});
  if (sequences > 1) return resources.planner.choose(sequences, limits, measured);
  if (jobs.empty()) return {};
  return {jobs[0].speculator->controller_.choose(limits[0].limits)};
}

bool Speculator::would_draft(SpecResources& resources, std::span<DraftJob> jobs, int sequences,
                             bool measured) {
  const auto choices = choose(resources, jobs, sequences, measured);
  if (std::all_of(choices.begin(), choices.end(), [](const DraftDecision& c) { return c.depth == 0; }))
    return false;
  resources.planner.drop_choice();
  for (const DraftJob& job : jobs) job.speculator->controller_.drop_choice();
  return true;
}

DraftTimes Speculator::draft_together(SpecResources& resources, std::span<DraftJob> jobs, int sequences,
                                      bool measured) {
  const auto choices = choose(resources, jobs, sequences, measured);
  std::array<Group, kDraftSources> groups;
  for (size_t i = 0; i < jobs.size(); i++) jobs[i].speculator->follow_choice(jobs[i], choices[i], groups);
  DraftTimes times;
  for (size_t k = 0; k < groups.size(); k++)
    if (!groups[k].works.empty()) run(groups[k], static_cast<DraftSource>(k), times);
  // A draft model's vocabulary may be padded to more tokens than the model has, and a copy may reach an
  // image.
  const auto unknown = [&](int id) { return id >= resources.model->spec().vocab; };
  for (DraftJob& job : jobs) {
    auto& tokens = job.draft.tokens;
    tokens.erase(std::find_if(tokens.begin(), tokens.end(), unknown), tokens.end());
  }
  return times;
}

}  // namespace anabranch
