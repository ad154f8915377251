#include "engine/engine_model.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/white_space.h"
#include "checkpoint/adapter_file.h"
#include "decode/spec_stats.h"
#include "decode/text_constraints.h"
#include "models/kernel_passes.h"
#include "ops/open.h"
#include "ops/table.h"
#include "output/output_format.h"

namespace anabranch {

Result<void> EngineModel::load(const EngineOptions& options, const LoadFunction& load) {
  TRY(device_, ops::open_device(options.device));
  TRY(loaded_, load(device_));
  if (!options.chat_template_path.empty()) {
    TRY(loaded_.chat_template, read_chat_template(options.chat_template_path, *loaded_.tokenizer));
  }
  if (options.lossy_skip) TRY_VOID(drop_layers());
  if (!options.draft_path.empty()) TRY_VOID(load_draft_model(options.draft_path));
  auto& info = loaded_.info;
  info.max_running = options.max_running > 0 ? options.max_running : device_->parallel();
  if (options.pooling) info.pooling = options.pooling;
  if (!options.model_name.empty()) info.name = options.model_name;
  if (options.context_length > info.context_length)
    log_warning(
        "the context is {0} tokens long, not {1}: the model is made for {0} (its config's "
        "max_position_embeddings)",
        info.context_length, options.context_length);
  else if (options.context_length > 0)
    info.context_length = options.context_length;
  describe_tokens();
  make_grammar_compiler();
  speculation_.model = loaded_.model.get();
  speculation_.draft_model = draft_.model.get();
  use_calibration();
  for (int i = 1; i < kDraftSources; i++)
    if (speculation_.has(static_cast<DraftSource>(i)))
      info.draft_sources.push_back(static_cast<DraftSource>(i));
  const SpecMode& mode = options.speculation;
  if (!mode.automatic && !speculation_.has(mode.source))
    return cannot_draft(mode.source, info, loaded_.model->spec());
  load_statistics(options);
  finish_kernels();
  return {};
}

void EngineModel::prepare_adapters(const nn::Adapter& adapter, const AdapterFile& file) {
  std::set<std::string> projections;  // modules without the numbers of their layers
  for (const auto& [module, matrices] : file.modules) {
    std::string name = module;
    std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
    projections.insert(std::move(name));
  }
  if (std::ranges::includes(adapted_, projections)) return;
  prepare_kernels(model(), adapter);
  finish_kernels();
  adapted_.merge(projections);
}

// Waits until all kernels are compiled, before the first request is accepted.
void EngineModel::finish_kernels() {
  const double start = now_seconds();
  if (const int compiled = device_->finish_kernels(); compiled > 0)
    log_info("{} kernels were compiled for {}; the last ones took {:.1f} s more than loading the model",
             compiled, device_->name(), now_seconds() - start);
}

// Leaves out the layers that calibration found least needed. Drops the calibration as well, because its layer
// numbers do not apply to the remaining layers.
Result<void> EngineModel::drop_layers() {
  const Calibration c = std::exchange(loaded_.calibration, {});
  auto& info = loaded_.info;
  if (c.skip_layers.empty())
    return make_error(ErrorKind::invalid,
                      "--lossy-skip: calibration has not found layers of {} to leave out: run `anabranch "
                      "calibrate -m {}` first",
                      info.name, info.path);
  if (!loaded_.model->can_skip_layers())
    return make_error(ErrorKind::unsupported, "--lossy-skip: layers of {} need each other", info.name);
  log_warning("{}", lossy_note(c, info.layers));
  loaded_.model->drop_layers(c.skip_layers);
  describe(*loaded_.model, info);
  info.lossy = true;
  return {};
}

Result<void> EngineModel::load_draft_model(const std::string& path) {
  TRY(draft_, load_model(path, device_, {LoadedFor::drafts, true}));
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

void EngineModel::use_calibration() {
  // Each rate is the maximum of many estimates, which errors raise, so a value near 1 is no gain. 0: not
  // known.
  const auto hopeless = [](double rate) { return rate > 0 && rate < 1.1; };
  const Calibration& c = loaded_.calibration;
  speculation_.exit_runs = c.exit_layers;
  const bool skips = !c.skip_layers.empty() && loaded_.model->can_skip_layers();
  for (int i = 0; i < loaded_.info.layers && skips; i++)
    if (!std::binary_search(c.skip_layers.begin(), c.skip_layers.end(), i))
      speculation_.skip_runs.push_back(i);
  speculation_.only_on_request[static_cast<size_t>(DraftSource::exit)] = hopeless(c.exit_rate);
  speculation_.only_on_request[static_cast<size_t>(DraftSource::skip)] = hopeless(c.skip_rate);
}

// Loads the statistics of speculation from a file whose name depends on the model, the machine and the
// settings, because costs and acceptance rates do.
void EngineModel::load_statistics(const EngineOptions& options) {
  if (!options.keep_statistics) return;
  const auto& info = loaded_.info;
  const std::string about =
      fmt::format("{} {} {} {} {} {} {} {}", info.name, info.parameters, info.bytes_per_token,
                  draft_.info.name, draft_.info.bytes_per_token, device_->threads().size(),
                  device_->is_host() ? device_->ops().kernels_name(*device_) : device_->name(),
                  options.device.precise + 2 * options.device.reference);
  Fnv1a hash;
  for (const char c : about) hash.add(static_cast<uint8_t>(c));
  statistics_path_ = spec_stats_path(fmt::format("{:016x}", hash.value()));
  speculation_.costs = SpecCosts(load_spec_stats(statistics_path_));
}

void EngineModel::save_statistics() const {
  if (!statistics_path_.empty()) save_spec_stats(statistics_path_, speculation_.costs.stats());
}

// Fills the tables about the vocabulary that constraints use.
void EngineModel::describe_tokens() {
  const auto& tokenizer = *loaded_.tokenizer;
  const auto format = find_output_format(loaded_.chat_template.get(), tokenizer);
  for (int id = 0; id < tokenizer.vocab_size(); id++) {
    const auto bytes = tokenizer.token_bytes(id);
    token_traits_.push_back(token_traits(bytes));
    if (!bytes.empty() && is_blank(bytes)) think_tokens_.blanks.push_back(id);
  }
  think_tokens_.ends = loaded_.eos;
  think_tokens_.traits = token_traits_;
  const ChatTemplate* chat = loaded_.chat_template.get();
  for (const auto opener : call_openers(!chat || shows_tools(*chat) ? format.tools : ToolFormat::tagged))
    if (const auto id = tokenizer.find(opener)) call_tokens_.push_back(*id);
  std::sort(call_tokens_.begin(), call_tokens_.end());
  tokens_by_byte_ = TokensByByte(tokenizer, loaded_.model->spec().vocab);
  reasoning_ = format.reasoning;
  if (!format.reasoning) return;
  const auto& tags = *format.reasoning;
  const auto open = tokenizer.find(tags.open_token.empty() ? tags.open : tags.open_token);
  const auto close = tokenizer.find(tags.close);
  if (!open || !close) return;
  think_tokens_.close = close;
  think_tokens_.messages = message_tokens(tags, tokenizer);
  if (!think_tokens_.messages) think_tokens_.open = open;
}

void EngineModel::make_grammar_compiler() {
  const auto& tokenizer = *loaded_.tokenizer;
  GrammarVocab vocab{std::vector<std::string>(static_cast<size_t>(loaded_.model->spec().vocab)), loaded_.eos};
  const int known = std::min(tokenizer.vocab_size(), loaded_.model->spec().vocab);
  for (int id = 0; id < known; id++)
    if (!tokenizer.is_special(id)) vocab.tokens[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
  // A byte that never occurs in UTF-8 keeps marker tokens out of text: only Token(id) in a grammar allows
  // them.
  for (const int mark : mark_tokens(find_output_format(loaded_.chat_template.get(), tokenizer), tokenizer))
    if (mark < known)
      vocab.tokens[static_cast<size_t>(mark)] = "\xff" + std::string(tokenizer.token_bytes(mark));
  grammars_ = std::make_unique<GrammarCompiler>(std::move(vocab), GrammarLimits{.seconds = 10});
}

namespace {

// Thinking control for a model without thoughts: every token belongs to the answer.
struct AllAnswer {
  ThinkTokens tokens;
  ThinkControl control{tokens, {}};
};

}  // namespace

Result<void> EngineModel::check_beginning(std::shared_ptr<const CompiledGrammar> grammar,
                                          std::span<const int> tokens) const {
  const AllAnswer all;
  AnswerGrammar answer(std::move(grammar), think_tokens_, all.control);
  size_t fits = 0;
  try {
    for (; fits < tokens.size(); fits++) answer.follow(tokens[fits]);
  } catch (const std::exception& e) {
    return make_error(ErrorKind::invalid, "no answer can begin like the text so far: after \"{}\", {}",
                      tokenizer().decode(tokens.first(fits), false), e.what());
  }
  return {};
}

// With a small bound, a thought is closed by its tag alone, or its text would take the answer's share.
void shorten_closing(ThinkRules& rules, int close, int most) {
  if (static_cast<int>(rules.closing.size()) <= most) return;
  rules.closing.erase(rules.closing.begin(), std::ranges::find(rules.closing, close));
  rules.closing.resize(std::min(rules.closing.size(), static_cast<size_t>(std::max(most, 1))));
}

ThinkRules EngineModel::think_rules(const Request& request) const {
  const ThinkingOptions& wanted = request.thinking;
  ThinkRules rules;
  rules.open = request.output.thinking_open && think_tokens_.close;
  rules.answer_begun = request.begun > 0;
  rules.watch = !request.ignore_eos;
  rules.loops = wanted.loops;
  if (wanted.calls != CallPolicy::text) rules.calls = call_tokens_;
  rules.may_call = wanted.calls != CallPolicy::none;
  if (request.grammar) {  // keep only the call tokens with which an answer may begin
    const AllAnswer all;
    AnswerGrammar grammar(request.grammar, think_tokens_, all.control);
    std::erase_if(rules.calls, [&](int token) { return !grammar.may_begin(token); });
  }
  if (!think_tokens_.close) return rules;
  if (const auto& tags = request.output.format.reasoning)
    rules.blanks_before = tags->blanks_before && !request.output.goes_on;
  rules.closing = closing_tokens(tokenizer(), wanted.closing, *reasoning_, !rules.may_call);
  if (const auto& messages = think_tokens_.messages) {
    // Text completions, whose output has no format, are answers.
    rules.in_answer = (request.output.goes_on || !request.output.format.reasoning) && !rules.open;
    rules.headers_answer = request.grammar && rules.may_call;
    rules.next = messages->turn;
    if (!rules.may_call)
      rules.next.insert(rules.next.end(), messages->answer.begin(), messages->answer.end());
  }
  if (!request.grammar) {
    rules.escape = tokenizer().encode(wanted.answer_start, false);
    rules.fence = tokenizer().encode(wanted.answer_fence, false);
    if (!rules.fence.empty()) rules.fence_end = tokenizer().encode("\n", false);
  }
  // Reserve room for the answer first: its share of a bound on all tokens, otherwise as much as it may need,
  // but at most a quarter of the remaining context.
  const bool shared = request.bound == TokenBound::shared;
  const int room = info().context_length - static_cast<int>(request.prompt.size());
  const int all = shared ? request.max_tokens : room;  // max_tokens is at most `room`
  const int answer = shared ? answer_share(all) : std::min(all / 4, request.max_tokens);
  const int left = all - answer - static_cast<int>(rules.closing.size() + rules.escape.size());
  rules.budget = std::clamp(left, 0, std::max(0, wanted.budget.value_or(kDefaultThinkingBudget)));
  rules.count_closings = shared;
  // A grammar may need white space first.
  if (shared && !request.grammar) rules.most = all - answer - static_cast<int>(rules.escape.size());
  if (shared && !think_tokens_.messages) shorten_closing(rules, *think_tokens_.close, all - answer);
  return rules;
}

void EngineModel::constrain(Sequence& sequence) const {
  const Request& request = sequence.request;
  auto control = std::make_unique<ThinkControl>(think_tokens_, think_rules(request));
  sequence.thinking = control.get();
  sequence.constraints.add(std::move(control));
  const auto begun = std::span(request.prompt).last(static_cast<size_t>(request.begun));
  if (request.grammar) {
    auto grammar = std::make_unique<AnswerGrammar>(request.grammar, think_tokens_, *sequence.thinking);
    sequence.grammar = grammar.get();
    for (const int token : begun) grammar->follow(token);
    sequence.constraints.add(std::move(grammar));
  } else if (request.output.reads_calls()) {
    auto names =
        std::make_unique<CallNames>(tokenizer(), tokens_by_byte_, request.output, *sequence.thinking);
    for (const int token : begun) names->follow(token);
    sequence.constraints.add(std::move(names));
  }
  if (request.output.min_tokens > 0) {
    std::vector<int> ends = request.output.stop_tokens;
    if (!request.ignore_eos) ends.insert(ends.end(), loaded_.eos.begin(), loaded_.eos.end());
    const bool all = request.ignore_eos || request.bound == TokenBound::all;
    sequence.constraints.add(std::make_unique<MinTokens>(request.output.min_tokens, std::move(ends),
                                                         all ? nullptr : sequence.thinking));
  }
  if (!request.ignore_eos) sequence.constraints.add(std::make_unique<TurnEnd>(loaded_.eos));
  if (const auto& ends = request.output.stop_tokens; !ends.empty())
    sequence.constraints.add(std::make_unique<TurnEnd>(ends));
  if (!request.stop.empty() || request.output.max_calls < INT_MAX)
    sequence.constraints.add(std::make_unique<StopText>(tokenizer(), request.stop, request.output));
}

}  // namespace anabranch
