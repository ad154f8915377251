// `bench --prompts`: real prompts answered with each kind of speculation in turn. Checks that the tokens are
// the same, and shows what each is worth.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "base/mapped_file.h"
#include "cli/conversation.h"
#include "server/speculation_json.h"

namespace anabranch::cli {
namespace {

constexpr size_t kMaxPromptFileBytes = 64u << 20;

struct Task {
  std::string id, thinking;
  Json messages = Json::array();
};

struct TaskSet {
  std::string name;
  std::vector<Task> tasks;
};

// FNV-1a over all tokens of all answers: equal for runs that said the same.
struct Fingerprint {
  uint64_t value = 0xcbf29ce484222325u;
  void add(const std::vector<int>& tokens) {
    for (const int token : tokens) value = (value ^ static_cast<uint32_t>(token)) * 0x100000001b3u;
    value = (value ^ 0xffffffffu) * 0x100000001b3u;
  }
};

// One kind of speculation on one set.
struct Column {
  std::vector<double> rates;  // tok/s of each repetition
  SpecCounters counters;
  long tokens = 0, different = 0;  // answers that are not the first kind's
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
    // Answers that fall into a loop would flatter every drafter.
    if (json.value(sampled ? "sampled_ok" : "greedy_ok", Json(true)) == false) continue;
    Task task{string_at(json, "id"), string_at(json, "thinking")};
    if (const auto system = string_at(json, "system"); !system.empty())
      task.messages.push_back({{"role", "system"}, {"content", system}});
    task.messages.push_back({{"role", "user"}, {"content", string_at(json, "prompt")}});
    set.tasks.push_back(std::move(task));
  }
  return set;
}

// "mtp", or "mtp:3" for three drafts a round.
Result<SpecMode> mode_of(const std::string& kind) {
  const size_t colon = kind.find(':');
  int depth = 0;
  if (colon != kind.npos) {
    const char *from = kind.data() + colon + 1, *end = kind.data() + kind.size();
    const auto read = std::from_chars(from, end, depth);
    if (read.ec != std::errc() || read.ptr != end || depth < 1 || depth > kMaxDraft) depth = -1;
  }
  const auto mode = server::speculation_mode(kind.substr(0, colon), std::max(depth, 0));
  if (!mode || depth < 0)
    return make_error(ErrorKind::invalid, "--spec: \"{}\" is not a kind of speculation, or one and its depth",
                      kind);
  return *mode;
}

class SpeculationBench {
 public:
  SpeculationBench(const BenchOptions& options, Engine& engine) : options_(options), engine_(engine) {}

  // One column per kind; `said` gets the first kind's answers.
  Result<std::vector<Column>> run(const TaskSet& set, Fingerprint& said) {
    const size_t kinds = options_.kinds.size();
    std::vector<Column> columns(kinds);
    std::vector<std::vector<int>> first(set.tasks.size());  // answers of the first kind
    for (int rep = 0; rep < options_.reps; rep++) {
      std::vector<double> seconds(kinds), tokens(kinds);
      for (size_t t = 0; t < set.tasks.size(); t++) {
        for (size_t k = 0; k < kinds; k++) {
          const size_t kind = (k + t + rep) % kinds;  // each comes first in turn
          TRY(const Answer answer, ask(set.tasks[t], options_.kinds[kind]));
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
      for (size_t t = 0; rep == 0 && t < set.tasks.size(); t++) said.add(first[t]);
      for (size_t k = 0; k < kinds; k++)
        columns[k].rates.push_back(seconds[k] > 0 ? tokens[k] / seconds[k] : 0);
    }
    return columns;
  }

 private:
  Result<Answer> ask(const Task& task, const std::string& kind) {
    const bool thinks = engine_.chat_template()->mentions("enable_thinking");
    TRY(auto prompt, make_chat_prompt(engine_, task.messages, thinks ? task.thinking : ""));
    Request request;
    request.sampling = sampling_params(options_.sampling, engine_, 1);
    request.max_tokens = options_.decode;
    TRY(request.speculation, mode_of(kind));
    return run_prompt(engine_, std::move(prompt), std::move(request), true, interrupt_flag());
  }

  const BenchOptions& options_;
  Engine& engine_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Of the first column, repetition by repetition.
std::vector<double> ratios(const Column& column, const Column& first) {
  std::vector<double> out;
  for (size_t i = 0; i < column.rates.size(); i++) out.push_back(column.rates[i] / first.rates[i]);
  return out;
}

void print_column(const std::string& kind, const Column& column, const Column& first) {
  const auto all = ratios(column, first);
  long rounds = 0;
  for (const auto& s : column.counters.sources) rounds += s.rounds;
  fmt::print("  {:<9} {:>8.1f} {:>7.2f} {:>6.2f} -{:>5.2f} {:>8.2f} {:>7}  ", kind, median(column.rates),
             median(all), *std::min_element(all.begin(), all.end()),
             *std::max_element(all.begin(), all.end()),
             rounds > 0 ? static_cast<double>(column.tokens) / static_cast<double>(rounds) : 0,
             column.different == 0 ? "same" : fmt::format("{} DIFFER", column.different));
  for (int i = 1; i < kDraftSources; i++) {
    const auto& s = column.counters.sources[i];
    if (s.drafted == 0) continue;
    fmt::print("{} {:.0f} %:", name_of(static_cast<DraftSource>(i)), 100.0 * s.accepted / s.drafted);
    for (int p = 0; p < kMaxDraft && s.drafted_at[p] > 0 && p < 5; p++)
      fmt::print(" {:.2f}", static_cast<double>(s.accepted_at[p]) / s.drafted_at[p]);
    fmt::print("; ");
  }
  fmt::print("\n");
}

Json to_json(const std::string& kind, const Column& column, const Column& first) {
  return {{"speculation", kind},
          {"tok_s", median(column.rates)},
          {"tok_s_each", column.rates},
          {"ratio", median(ratios(column, first))},
          {"ratio_each", ratios(column, first)},
          {"tokens", column.tokens},
          {"different_answers", column.different},
          {"counters", server::speculation_json(column.counters)}};
}

Result<int> run(const BenchOptions& options) {
  for (const auto& kind : options.kinds) TRY_VOID(mode_of(kind));
  EngineOptions to = engine_options(options.model, {"off", 0, options.draft, false});
  to.keep_statistics = false;
  TRY(const auto engine, Engine::create(to));
  if (!engine->chat_template())
    return make_error(ErrorKind::unsupported, "{} brings no chat template", engine->info().name);
  SpeculationBench bench(options, *engine);
  const bool sampled = sampling_params(options.sampling, *engine, 1).temperature > 0;
  Json report = Json::array();
  long different = 0;
  for (const auto& path : options.prompts) {
    TRY(const TaskSet set, read_tasks(path, sampled));
    if (set.tasks.empty()) return make_error(ErrorKind::invalid, "{} has no prompt to answer", path);
    Fingerprint said;
    TRY(const auto columns, bench.run(set, said));
    if (!options.json)
      fmt::print("{}: {} prompts, {} x, answers {:016x}\n  {:<9} {:>8} {:>7} {:>14} {:>8} {:>7}  {}\n",
                 set.name, set.tasks.size(), options.reps, said.value, "", "tok/s", "ratio", "min - max",
                 "a round", "tokens", "accepted, by position (reached or not)");
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
                      {"answers", fmt::format("{:016x}", said.value)},
                      {"results", std::move(kinds)}});
  }
  if (options.json)
    fmt::print("{}\n", Json{{"model", engine->info().name}, {"sets", std::move(report)}}.dump(2));
  return different == 0 ? 0 : 1;
}

}  // namespace

int run_speculation_bench(const BenchOptions& options) {
  auto result = run(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
