// `bench --prompts`: real prompts answered with each kind of speculation in turn. Checks that the tokens are
// the same, and shows the speed of each kind.
#include <fmt/core.h>

#include <charconv>
#include <filesystem>
#include <sstream>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "chat/speculation_json.h"
#include "cli/conversation.h"
#include "cli/print.h"
#include "cli/prompts.h"
#include "cli/spread.h"

namespace anabranch::cli {
namespace {

constexpr size_t kMaxPromptFileBytes = 64u << 20;

struct Task {
  std::string thinking;
  Json messages = Json::array();
};

struct TaskSet {
  std::string name;
  std::vector<Task> tasks;
};

// Adds an answer to the hash of all tokens of all answers. Runs with the same answers have the same hash.
void add_answer(Fnv1a& said, const std::vector<int>& tokens) {
  for (const int token : tokens) said.add(static_cast<uint32_t>(token));
  said.add(0xffffffffu);
}

// One kind of speculation on one set.
struct Column {
  std::vector<double> rates;  // tok/s of each repetition
  SpecCounters counters;
  long tokens = 0, different = 0;  // `different`: answers that differ from the first kind's
};

Result<TaskSet> read_tasks(const std::string& path, bool sampled) {
  TRY(const auto text, read_file(path, kMaxPromptFileBytes));
  TaskSet set{std::filesystem::path(path).stem().string(), {}};
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); number++) {
    if (line.empty()) continue;
    const auto parsed = parse_json(line);
    if (!parsed) return make_error(ErrorKind::invalid, "{}:{}: {}", path, number, parsed.error().message);
    const Json& json = *parsed;
    if (!json.is_object() || string_at(json, "prompt").empty())
      return make_error(ErrorKind::invalid, "{}:{}: not an object with a \"prompt\"", path, number);
    // Leave out answers that fall into a loop: they would make every draft source look good.
    if (json.value(sampled ? "sampled_ok" : "greedy_ok", Json(true)) == false) continue;
    // Makes the same request as bench/speculation_loops.py: the marks greedy_ok and sampled_ok in the file
    // hold only for answers to it.
    Task task{string_at(json, "thinking")};
    if (task.thinking.empty()) task.thinking = "off";
    if (const auto system = string_at(json, "system"); !system.empty())
      task.messages.push_back({{"role", "system"}, {"content", system}});
    task.messages.push_back({{"role", "user"}, {"content", string_at(json, "prompt")}});
    set.tasks.push_back(std::move(task));
  }
  return set;
}

// "mtp", or "mtp:3" for three draft tokens a round.
Result<SpecMode> mode_of(const std::string& kind) {
  const size_t colon = kind.find(':');
  int depth = 0;
  if (colon != kind.npos) {
    const char *from = kind.data() + colon + 1, *end = kind.data() + kind.size();
    const auto read = std::from_chars(from, end, depth);
    if (read.ec != std::errc() || read.ptr != end || depth < 1 || depth > kMaxDraft) depth = -1;
  }
  if (depth < 0)
    return make_error(ErrorKind::invalid,
                      "--spec: \"{}\" is not a kind of speculation and a depth from 1 to {}", kind,
                      kMaxDraft);
  const auto mode = parse_spec_mode(kind.substr(0, colon), depth);
  if (!mode) return make_error(ErrorKind::invalid, "--spec: {}", mode.error().message);
  return *mode;
}

class SpeculationBench {
 public:
  SpeculationBench(const BenchOptions& options, std::vector<SpecMode> modes, Engine& engine)
      : options_(options), modes_(std::move(modes)), engine_(engine) {}

  // One column per kind; `said` gets the first kind's answers.
  Result<std::vector<Column>> run(const TaskSet& set, Fnv1a& said) {
    const size_t kinds = modes_.size();
    std::vector<Column> columns(kinds);
    std::vector<std::vector<int>> first(set.tasks.size());  // answers of the first kind
    for (int rep = 0; rep < options_.reps; rep++) {
      std::vector<double> seconds(kinds), tokens(kinds);
      for (size_t t = 0; t < set.tasks.size(); t++) {
        for (size_t k = 0; k < kinds; k++) {
          const size_t kind = (k + t + rep) % kinds;  // each kind comes first in turn
          // Drafts may be copied only from answers of the same kind and repetition, so never from an answer
          // to the same prompt.
          TRY(const Answer answer, ask(set.tasks[t], modes_[kind], fmt::format("{} {}", kind, rep)));
          Column& column = columns[kind];
          seconds[kind] += answer.usage.decode_s;
          tokens[kind] += answer.usage.completion_tokens - 1;
          column.tokens += answer.usage.completion_tokens;
          column.counters += answer.usage.speculation;
          if (answer.finish == FinishReason::cancelled) return make_error(ErrorKind::invalid, "interrupted");
          if (first[t].empty()) first[t] = answer.tokens;
          column.different += first[t] != answer.tokens;
        }
      }
      for (size_t t = 0; rep == 0 && t < set.tasks.size(); t++) add_answer(said, first[t]);
      for (size_t k = 0; k < kinds; k++)
        columns[k].rates.push_back(seconds[k] > 0 ? tokens[k] / seconds[k] : 0);
    }
    return columns;
  }

 private:
  Result<Answer> ask(const Task& task, const SpecMode& mode, std::string salt) {
    const bool thinks = engine_.chat_template()->mentions("enable_thinking");
    GenerationOptions wanted = generation_options(options_.sampling, engine_, 1);
    wanted.max_tokens = options_.decode;
    wanted.speculation = mode;
    wanted.cache_salt = std::move(salt);
    TRY(const Prepared prepared,
        prepare_chat(engine_, preparer_, {{"messages", task.messages}},
                     {thinks ? task.thinking : "auto", options_.decode}, std::move(wanted)));
    return run_prompt(engine_, prepared, true, catch_interrupts());
  }

  const BenchOptions& options_;
  std::vector<SpecMode> modes_;  // the modes of options_.kinds
  Engine& engine_;
  Preparer preparer_{engine_, {}};
};

// The column's rates relative to the first column's, for each repetition.
std::vector<double> ratios(const Column& column, const Column& first) {
  std::vector<double> out;
  for (size_t i = 0; i < column.rates.size(); i++) out.push_back(column.rates[i] / first.rates[i]);
  return out;
}

void print_column(const std::string& kind, const Column& column, const Column& first) {
  const auto all = spread_of(ratios(column, first));
  long rounds = 0;
  for (const auto& s : column.counters.sources) rounds += s.rounds;
  say("  {:<9} {:>8.1f} {:>7.2f} {:>6.2f} -{:>5.2f} {:>8.2f} {:>7}  ", kind, spread_of(column.rates).median,
      all.median, all.low, all.high,
      rounds > 0 ? static_cast<double>(column.tokens) / static_cast<double>(rounds) : 0,
      column.different == 0 ? "same" : fmt::format("{} DIFFER", column.different));
  for (int i = 1; i < kDraftSources; i++) {
    const auto& s = column.counters.sources[i];
    if (s.drafted == 0) continue;
    say("{} {:.0f} %:", name_of(static_cast<DraftSource>(i)), 100.0 * s.accepted / s.drafted);
    for (int p = 0; p < kMaxDraft && s.drafted_at[p] > 0 && p < 5; p++)
      say(" {:.2f}", static_cast<double>(s.accepted_at[p]) / s.drafted_at[p]);
    say("; ");
  }
  say("\n");
}

Json to_json(const std::string& kind, const Column& column, const Column& first) {
  return {{"speculation", kind},
          {"tok_s", spread_of(column.rates).median},
          {"tok_s_each", column.rates},
          {"ratio", spread_of(ratios(column, first)).median},
          {"ratio_each", ratios(column, first)},
          {"tokens", column.tokens},
          {"different_answers", column.different},
          {"counters", speculation_json(column.counters)}};
}

Result<int> run(const BenchOptions& options) {
  std::vector<SpecMode> modes;
  for (const auto& kind : options.kinds) {
    TRY(const SpecMode mode, mode_of(kind));
    modes.push_back(mode);
  }
  TRY(EngineOptions to, engine_options(options.engine, {"off"}, kNoCache));
  to.keep_statistics = false;
  TRY(const auto engine, Engine::create(to));
  if (!engine->chat_template())
    return make_error(ErrorKind::unsupported, "{} brings no chat template", engine->info().name);
  SpeculationBench bench(options, std::move(modes), *engine);
  const bool sampled = sampling_params(options.sampling, *engine, 1).temperature > 0;
  Json report = Json::array();
  long different = 0;
  for (const auto& path : options.prompts) {
    TRY(const TaskSet set, read_tasks(path, sampled));
    if (set.tasks.empty()) return make_error(ErrorKind::invalid, "{} has no prompt to answer", path);
    Fnv1a said;
    TRY(const auto columns, bench.run(set, said));
    if (!options.json)
      say("{}: {} prompts, {} x, answers {:016x}\n  {:<9} {:>8} {:>7} {:>14} {:>8} {:>7}  {}\n", set.name,
          set.tasks.size(), options.reps, said.value(), "", "tok/s", "ratio", "min - max", "a round",
          "tokens", "accepted, by position (reached or not)");
    Json kinds = Json::array();
    for (size_t k = 0; k < columns.size(); k++) {
      different += columns[k].different;
      if (options.json)
        kinds.push_back(to_json(options.kinds[k], columns[k], columns[0]));
      else
        print_column(options.kinds[k], columns[k], columns[0]);
    }
    std::fflush(stdout);
    report.push_back({{"set", set.name},
                      {"prompts", set.tasks.size()},
                      {"answers", fmt::format("{:016x}", said.value())},
                      {"results", std::move(kinds)}});
  }
  if (options.json) say_json({{"model", engine->info().name}, {"sets", std::move(report)}}, 2);
  return different == 0 ? 0 : 1;
}

}  // namespace

int run_speculation_bench(const BenchOptions& options) {
  auto result = run(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
