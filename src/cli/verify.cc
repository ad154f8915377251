// `verify`: checks a model on this machine and writes a report that a bug report can contain.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_name.h"
#include "checkpoint/shard_writer.h"
#include "cli/print.h"
#include "cli/verify_checks.h"
#include "models/vision_tower.h"
#include "ops/table.h"

namespace anabranch::cli {
namespace {

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "FAIL";
    case Verdict::not_applicable:
      return "not applicable";
    case Verdict::info:
      return "info";
    case Verdict::not_run:
      break;
  }
  return "not run";
}

// One cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|')
      out += "\\|";
    else if (c == '<')
      out += "&lt;";
    else
      out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

struct Row {
  std::string check;
  Finding finding;
};

struct Report {
  std::string model, path;
  std::vector<std::pair<std::string, std::string>> setting;
  std::vector<Row> rows;

  int count(Verdict verdict) const {
    int n = 0;
    for (const Row& row : rows) n += row.finding.verdict == verdict;
    return n;
  }
  std::string summary() const {
    return fmt::format("{} passed, {} failed, {} not applicable, {} not run", count(Verdict::pass),
                       count(Verdict::fail), count(Verdict::not_applicable), count(Verdict::not_run));
  }
  Result<void> write() const {
    std::string text = fmt::format("# anabranch verify: {}\n\n| | |\n|---|---|\n", model);
    for (const auto& [name, value] : setting) text += fmt::format("| {} | {} |\n", name, cell(value));
    text += fmt::format("\n{}.\n\n| Check | Result | Details |\n|---|---|---|\n", summary());
    for (const auto& [check, finding] : rows)
      text += fmt::format("| {} | {} | {} |\n", check, name_of(finding.verdict), cell(finding.details));
    for (const auto& [check, finding] : rows)
      if (!finding.appendix.empty()) text += "\n" + finding.appendix;
    return write_file(path, text);
  }
};

// Facts that are read from the loaded model while the engine is being made.
struct ModelFacts {
  std::string layers, tensor_types, kernels, template_problem;
  size_t threads = 0;
};

std::string kind_of(const MixerSpec& mixer) {
  const auto* attention = std::get_if<AttentionSpec>(&mixer);
  if (const auto* both = std::get_if<SideBySideSpec>(&mixer))
    return kind_of(MixerSpec(both->attention)) + " beside " + kind_of(MixerSpec(both->recurrence));
  if (const auto* indexed = std::get_if<IndexedAttentionSpec>(&mixer))
    return fmt::format("{} over {} of its blocks of {}", kind_of(MixerSpec(indexed->attention)),
                       indexed->blocks, indexed->ratio);
  if (std::holds_alternative<std::monostate>(mixer)) return "without a mixer";
  if (const auto* latent = std::get_if<LatentAttentionSpec>(&mixer))
    return fmt::format("latent attention ({} heads of {} for keys and {} for values, latents of {})",
                       latent->heads, latent->plain_dim + latent->turned_dim, latent->value_dim,
                       latent->rank);
  if (!attention) {
    const auto& delta = std::get<ops::RecurrenceShape>(mixer);
    if (delta.channels > 0) return fmt::format("short convolution of {} taps", delta.conv_kernel);
    return fmt::format("{} ({} key heads of {}, {} value heads of {})",
                       delta.is_gated_delta() ? "gated delta" : "recurrence", delta.key_heads, delta.key_dim,
                       delta.value_heads, delta.value_dim);
  }
  return fmt::format("attention ({} heads, {} for keys and values, of {}{})", attention->heads,
                     attention->kv_heads, attention->head_dim,
                     attention->window > 0 ? fmt::format(", window {}", attention->window) : "");
}

std::string kind_of(const FeedForwardSpec& feed_forward) {
  if (std::holds_alternative<std::monostate>(feed_forward)) return "without an MLP";
  if (const auto* mlp = std::get_if<MlpSpec>(&feed_forward))
    return fmt::format("MLP of {}", mlp->intermediate);
  if (const auto* moe = std::get_if<MoeSpec>(&feed_forward))
    return fmt::format("mixture of {} experts of {}, {} a token", moe->experts, moe->intermediate,
                       moe->routing.top_k);
  return fmt::format("MLP and mixture of {} experts", std::get<MlpAndMoeSpec>(feed_forward).moe.experts);
}

// "24 layers: 6 attention (...), 18 gated delta (...); 24 MLP of 3584; hidden 1024, vocabulary 248320"
std::string layers_by_kind(const ModelSpec& spec) {
  std::map<std::string, int> mixers, feed_forwards;
  for (const LayerSpec& layer : spec.layers) {
    mixers[kind_of(layer.mixer)]++;
    feed_forwards[kind_of(layer.mlp)]++;
  }
  const auto list = [](const std::map<std::string, int>& counts) {
    std::vector<std::string> out;
    for (const auto& [kind, count] : counts) out.push_back(fmt::format("{} {}", count, kind));
    return fmt::format("{}", fmt::join(out, ", "));
  };
  return fmt::format("{} layers: {}; {}; hidden {}, vocabulary {}{}", spec.layers.size(), list(mixers),
                     list(feed_forwards), spec.hidden, spec.vocab, spec.tied_embeddings ? " (tied)" : "");
}

// "38 BF16 12.1 MB, 196 affine-4/64 80.0 MB", and the tensors that are not used.
Result<std::string> tensor_types(const std::string& path, const Model& model) {
  struct Type {
    int count = 0;
    uint64_t bytes = 0;
  };
  TRY(const auto checkpoint, Checkpoint::open(path));
  std::map<std::string, Type> types;
  int mtp = 0;
  for (const auto& tensor : checkpoint->tensors()) {
    types[tensor.type].count++;
    types[tensor.type].bytes += tensor.bytes;
    mtp += tensor.name.starts_with("mtp.");
  }
  std::vector<std::string> out;
  for (const auto& [name, type] : types)
    out.push_back(fmt::format("{} {} {:.1f} MB", type.count, name, type.bytes / 1e6));
  if (checkpoint->left_out() > 0)
    out.push_back(fmt::format("{} for images or sound{}", checkpoint->left_out(),
                              VisionTower::present(*checkpoint) ? "" : ", not used"));
  if (mtp > 0 && !model.has_mtp()) out.push_back(fmt::format("{} of an MTP head, not used", mtp));
  return fmt::format("{}", fmt::join(out, ", "));
}

Result<std::unique_ptr<Engine>> load(const VerifyOptions& options, ModelFacts& facts) {
  TRY(EngineOptions to, engine_options(options.engine, {"off"}, kNoCache));
  to.cache = CacheOptions{.enabled = true};  // in memory only
  to.keep_statistics = false;
  return create_engine(to, [&](std::shared_ptr<Device> device) -> Result<LoadedModel> {
    TRY(auto loaded, load_model(to.model_path, device, {.overcommit = to.overcommit}));
    TRY(facts.tensor_types, tensor_types(to.model_path, *loaded.model));
    facts.layers = layers_by_kind(loaded.model->spec());
    facts.kernels = device->is_host() ? device->ops().kernels_name(*device) : device->name();
    facts.threads = device->threads().size();
    facts.template_problem = loaded.template_problem;
    return loaded;
  });
}

Finding describe_load(const ModelInfo& info, const ModelFacts& facts) {
  const double bits = 8.0 * (info.weight_bytes - info.mtp_bytes - info.draft_head_bytes) / info.parameters;
  return {
      Verdict::pass,
      fmt::format("family {}; {}; {:.1f} million parameters, {:.2f} bits each in memory; tensors: {}; {}; "
                  "context {}; {:.1f} s",
                  info.family, facts.layers, info.parameters / 1e6, bits, facts.tensor_types,
                  info.has_mtp ? "MTP head" : "no MTP head", info.context_length, info.load_s)};
}

// The report's file, if the user names none.
std::string usual_report(const std::string& model) {
  std::string name = model.substr(model.rfind('/') + 1);
  for (char& c : name)  // some characters of names are hard to type
    if (c <= ' ' || c > '~') c = '_';
  return "anabranch-verify-" + name + ".md";
}

// Runs one check and writes the report before and after it: should the program crash, the report says where.
template <class Check>
Result<void> run_row(Report& report, Row& row, const Check& check) {
  row.finding = {Verdict::fail, "did not finish: the program ended during this check"};
  TRY_VOID(report.write());
  say(stderr, "{:<18} ", row.check);
  std::fflush(stderr);
  const double start = now_seconds();
  const Result<Finding> finding = check();
  row.finding = finding ? *finding : Finding{Verdict::fail, finding.error().message};
  say(stderr, "{} ({:.1f} s): {}\n", name_of(row.finding.verdict), now_seconds() - start,
      row.finding.details);
  return report.write();
}

template <DraftSource source>
Result<Finding> check_drafts(VerifySubject& subject) {
  return check_speculation(subject, source);
}

constexpr struct {
  const char* name;
  Result<Finding> (*run)(VerifySubject&);
} kChecks[] = {{"tokenizer", check_tokenizer},
               {"chat template", check_template},
               {"greedy text", show_greedy_text},
               {"speculation auto", check_drafts<DraftSource::none>},
               {"speculation ngram", check_drafts<DraftSource::ngram>},
               {"speculation mtp", check_drafts<DraftSource::mtp>},
               {"speculation draft", check_drafts<DraftSource::draft>},
               {"speculation exit", check_drafts<DraftSource::exit>},
               {"speculation skip", check_drafts<DraftSource::skip>},
               {"cache", check_cache},
               {"batch", check_batch},
               {"speed", measure_speed},
               {"needle", measure_needle}};

Result<int> verify(const VerifyOptions& options) {
  Report report;
  report.model = model_name_of(options.engine.model_path);
  report.path = options.report.empty() ? usual_report(report.model) : options.report;
  const CpuInfo& cpu = cpu_info();
  report.setting = {{"Version", ANABRANCH_VERSION},
                    {"Machine", fmt::format("{}, {:.1f} GB of memory", cpu.model, cpu.memory_bytes / 1e9)},
                    {"Flags", fmt::format("--device {}{}{}", options.engine.device.name,
                                          options.engine.device.precise ? " --precise" : "",
                                          options.engine.device.reference ? " --reference" : "")}};
  report.rows.push_back({"load", {}});
  for (const auto& check : kChecks) report.rows.push_back({check.name, {}});

  std::unique_ptr<Engine> engine;
  ModelFacts facts;
  TRY_VOID(run_row(report, report.rows[0], [&]() -> Result<Finding> {
    TRY(engine, load(options, facts));
    report.setting.push_back({"Kernels", fmt::format("{}, {} threads", facts.kernels, facts.threads)});
    return describe_load(engine->info(), facts);
  }));
  if (engine) {
    Preparer preparer(*engine, {});
    VerifySubject subject{*engine, preparer, facts.template_problem, {}};
    for (size_t i = 0; i < std::size(kChecks); i++)
      TRY_VOID(run_row(report, report.rows[i + 1], [&] { return kChecks[i].run(subject); }));
  }
  say("{}: {}\n", report.path, report.summary());
  return report.count(Verdict::fail) == 0 ? 0 : 1;
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  auto result = verify(options);
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
