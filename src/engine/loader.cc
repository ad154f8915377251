#include "engine/loader.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <numeric>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/memory_info.h"
#include "engine/loader_gguf.h"
#include "engine/loader_images.h"
#include "engine/memory_plan.h"
#include "engine/recommendation.h"
#include "models/config.h"
#include "models/kernel_passes.h"
#include "models/model_bytes.h"
#include "output/reasoning.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

fs::path directory_of(const Checkpoint& checkpoint) {
  const fs::path path = checkpoint.path();
  return fs::is_directory(path) ? path : path.parent_path();
}

// Adds the special tokens that a template of tokenizer.json appends to a text.
void add_template_end(const Json& processor, const Tokenizer& tokenizer, std::vector<int>& ids) {
  if (!processor.is_object()) return;
  if (const auto several = processor.find("processors"); several != processor.end() && several->is_array())
    for (const Json& one : *several) add_template_end(one, tokenizer, ids);
  const auto single = processor.find("single");
  if (single == processor.end() || !single->is_array()) return;
  bool behind = false;
  for (const Json& part : *single) {
    behind = behind || part.contains("Sequence");
    const auto special = part.find("SpecialToken");
    if (!behind || special == part.end() || !special->is_object()) continue;
    if (const auto id = tokenizer.find(string_at(*special, "id"))) ids.push_back(*id);
  }
}

std::vector<int> read_embedding_end(const Checkpoint& checkpoint, const Tokenizer& tokenizer) {
  if (is_gguf(checkpoint)) {
    const auto add = checkpoint.gguf_metadata().find("tokenizer.ggml.add_eos_token");
    const bool ends = add != checkpoint.gguf_metadata().end() && *add == true && tokenizer.eos();
    return ends ? std::vector{*tokenizer.eos()} : std::vector<int>();
  }
  std::vector<int> ids;
  const auto text = checkpoint.side_file("tokenizer.json");
  const auto json = text ? parse_json(*text) : Result<Json>(Json());
  if (json && json->is_object() && json->contains("post_processor"))
    add_template_end((*json)["post_processor"], tokenizer, ids);
  return ids;
}

// Ids that end a turn: those named by the files, and the markers with which chat templates close a turn.
std::vector<int> turn_ends(const Model& model, const Tokenizer& tokenizer, std::vector<int> eos) {
  eos.insert(eos.end(), model.spec().eos.begin(), model.spec().eos.end());
  if (const auto id = tokenizer.eos()) eos.push_back(*id);
  // After its own call Gemma 4 opens the result ("<|tool_response>"), which it must not write itself.
  for (const char* marker :
       {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<turn|>", "<|tool_response>", "<|endoftext|>"})
    if (const auto id = tokenizer.find(marker)) eos.push_back(*id);
  // gpt-oss ends a message with <|end|> and a turn with the others; GGUF files may name the first as an end.
  if (const auto reasoning = find_reasoning_tags(tokenizer); reasoning && reasoning->are_messages()) {
    std::erase(eos, *tokenizer.find(reasoning->close));
    for (const char* marker : {"<|return|>", "<|call|>"})
      if (const auto id = tokenizer.find(marker)) eos.push_back(*id);
  }
  std::sort(eos.begin(), eos.end());
  eos.erase(std::unique(eos.begin(), eos.end()), eos.end());
  return eos;
}

// The draft vocabulary of a model without calibration: the first ids, which are the frequent tokens because
// BPE numbers merges in the order learnt, and the special tokens that mark turns, thinking and tools.
std::vector<int> default_draft_vocab(const Tokenizer& tokenizer) {
  constexpr int kSmall = 16384, kLeast = 8192, kMost = 32768;
  const int vocab = tokenizer.vocab_size();
  if (vocab <= kSmall) return {};
  std::vector<int> ids(std::clamp(vocab / 6, kLeast, kMost));
  std::iota(ids.begin(), ids.end(), 0);
  for (int id = static_cast<int>(ids.size()); id < vocab; id++)
    if (tokenizer.is_special(id)) ids.push_back(id);
  return ids;
}

// Reads speculation.json beside the model, which is optional: an invalid file is ignored with a warning.
Calibration load_calibration(const Checkpoint& checkpoint) {
  constexpr size_t kMaxBytes = 32 << 20;
  const std::string path = calibration_path(checkpoint.path());
  const auto text = read_file(path, kMaxBytes);
  if (!text && text.error().kind == ErrorKind::not_found) return {};
  auto parsed = text ? parse_calibration(*text) : text.error();
  if (!parsed) log_warning("{} is ignored: {}", path, parsed.error().message);
  return parsed ? std::move(*parsed) : Calibration{};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const Checkpoint& checkpoint) {
  if (!is_gguf(checkpoint)) return Tokenizer::from_directory(directory_of(checkpoint).string());
  TRY(const auto vocab, read_gguf_vocab(checkpoint));
  return Tokenizer::from_gguf(vocab);
}

namespace {

constexpr size_t kMostTemplateBytes = 4 << 20;

Result<std::shared_ptr<const ChatTemplate>> parse_template(const std::string& source,
                                                           const Tokenizer& tokenizer) {
  const auto text_of = [&](std::optional<int> id) {
    return id ? std::string(tokenizer.token_bytes(*id)) : "";
  };
  return ChatTemplate::parse(source, text_of(tokenizer.bos()), text_of(tokenizer.eos()));
}

}  // namespace

Result<std::string> chat_template_source(const Checkpoint& checkpoint) {
  if (is_gguf(checkpoint)) return string_at(checkpoint.gguf_metadata(), "tokenizer.chat_template");
  if (auto file = checkpoint.side_file("chat_template.jinja")) return *file;
  const auto config_text = checkpoint.side_file("tokenizer_config.json");
  if (config_text) {
    TRY(const Json config, parse_json(*config_text));
    const auto it = config.find("chat_template");
    if (it != config.end() && it->is_array()) {
      for (const Json& entry : *it)
        if (string_at(entry, "name") == "default") return string_at(entry, "template");
    }
    if (auto text = string_at(config, "chat_template"); !text.empty()) return text;
  }
  const auto of_processor = checkpoint.side_file("chat_template.json");
  if (!of_processor) return std::string();
  TRY(const Json processor, parse_json(*of_processor));
  return string_at(processor, "chat_template");
}

Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const Checkpoint& checkpoint,
                                                               const Tokenizer& tokenizer) {
  TRY(const auto source, chat_template_source(checkpoint));
  if (source.empty()) return std::shared_ptr<const ChatTemplate>();
  return parse_template(source, tokenizer);
}

Result<std::shared_ptr<const ChatTemplate>> read_chat_template(const std::string& path,
                                                               const Tokenizer& tokenizer) {
  TRY(const auto source, read_file(path, kMostTemplateBytes));
  auto parsed = parse_template(source, tokenizer);
  if (!parsed) return make_error(parsed.error().kind, "{}: {}", path, parsed.error().message);
  return parsed;
}

namespace {

Result<void> check_memory(const Checkpoint& checkpoint, const Device& device, bool overcommit) {
  if (device.has_own_memory()) return {};
  uint64_t weights = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) weights += tensor.bytes;
  const std::string problem = weights_problem(weights, available_memory());
  if (problem.empty()) return {};
  if (!overcommit)
    return make_error(ErrorKind::exhausted, "{}: {}. --overcommit loads it all the same", checkpoint.path(),
                      problem);
  log_warning("{}: {}", checkpoint.path(), problem);
  return {};
}

}  // namespace

std::optional<Pooling> read_pooling(const Checkpoint& checkpoint) {
  if (is_gguf(checkpoint)) {
    const Json& metadata = checkpoint.gguf_metadata();
    const auto type = metadata.find(string_at(metadata, "general.architecture") + ".pooling_type");
    if (type == metadata.end()) return std::nullopt;
    if (*type == 1) return Pooling::mean;
    if (*type == 2) return Pooling::first;
    if (*type == 4) return Pooling::rank;
    return *type == 3 ? std::optional(Pooling::last) : std::nullopt;
  }
  const auto text = checkpoint.side_file(kPoolingFile);
  const auto config = text ? parse_json(*text) : Result<Json>(Json());
  if (!config || !config->is_object()) return std::nullopt;
  const auto says = [&](const char* name) { return config->value(name, Json(false)) == true; };
  if (says("pooling_mode_lasttoken")) return Pooling::last;
  if (says("pooling_mode_mean_tokens")) return Pooling::mean;
  return says("pooling_mode_cls_token") ? std::optional(Pooling::first) : std::nullopt;
}

Result<LoadedModel> load_model(const std::string& path, std::shared_ptr<Device> device,
                               const LoadOptions& wanted) {
  const double start = now_seconds();
  TRY(auto checkpoint, Checkpoint::open(path));
  TRY_VOID(check_memory(*checkpoint, *device, wanted.overcommit));
  LoadedModel out;
  out.device = std::move(device);
  // In parallel: the tokenizer and the weights come from different parts of the files.
  const auto tokenizer = std::async(std::launch::async, [&] { return load_tokenizer(*checkpoint); }).share();
  auto recommended = read_recommendation(*checkpoint);
  out.sampling = recommended.sampling;
  out.sampling_from = std::move(recommended.from);
  out.calibration = load_calibration(*checkpoint);
  ModelLoadOptions options;
  // The head's rows for drafts are loaded only if some draft source uses them.
  options.draft_vocab = [&]() -> std::vector<int> {
    const Calibration& c = out.calibration;
    const bool drafts = wanted.purpose == LoadedFor::drafts || checkpoint->has("mtp.fc.weight") ||
                        !c.exit_layers.empty() || !c.skip_layers.empty();
    if (!drafts || !tokenizer.get()) return {};
    return c.draft_vocab.empty() ? default_draft_vocab(**tokenizer.get()) : c.draft_vocab;
  };
  options.progress = [&](int done, int total) -> Result<void> {
    if (done == total || done % 8 == 0) log_debug("loaded layer {} of {}", done, total);
    if (wanted.progress) wanted.progress(done, total);
    const bool known = tokenizer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (known && !tokenizer.get()) return tokenizer.get().error();
    return {};
  };
  options.begun = [](const Model& begun) { prepare_kernels(begun); };
  options.split = wanted.purpose != LoadedFor::drafts;
  auto model = Model::load(*checkpoint, *out.device, options);
  TRY(out.tokenizer, tokenizer.get());
  TRY(out.model, std::move(model));
  if (auto chat_template = load_chat_template(*checkpoint, *out.tokenizer)) {
    out.chat_template = std::move(*chat_template);
  } else {  // without a template the model can still continue plain text
    out.template_problem = chat_template.error().message;
    log_warning("{}: its chat template cannot be used: {}", checkpoint->path(), out.template_problem);
  }
  prepare_kernels(*out.model);
  const auto fits = check_calibration(out.calibration, static_cast<int>(out.model->spec().layers.size()));
  if (!fits) {
    log_warning("{} is ignored: {}; run `anabranch calibrate -m {}` again", calibration_path(path),
                fits.error().message, path);
    out.calibration = {};
    TRY(const auto again, Checkpoint::open(path));
    TRY_VOID(out.model->set_draft_vocab(*again, options.draft_vocab()));
  }
  out.eos = turn_ends(*out.model, *out.tokenizer, recommended.eos);

  out.info.name = checkpoint->name();
  out.info.path = checkpoint->path();
  out.config = checkpoint->config();
  describe(*out.model, out.info);
  out.info.pooling = read_pooling(*checkpoint);
  if (out.info.pooling) out.info.embedding_end = read_embedding_end(*checkpoint, *out.tokenizer);
  if (wanted.purpose == LoadedFor::answers) load_images(*checkpoint, out);
  checkpoint.reset();
  return_free_memory();  // that only loading needed
  out.info.load_s = now_seconds() - start;
  return out;
}

void describe(const Model& model, ModelInfo& info) {
  const auto& spec = model.spec();
  info.family = spec.family;
  info.context_length = spec.context_length;
  info.layers = static_cast<int>(spec.layers.size());
  info.hidden = spec.hidden;
  const ModelBytes bytes = count_bytes(model);
  info.parameters = count_parameters(model);
  info.weight_bytes = bytes.all();
  info.mtp_bytes = bytes.mtp;
  info.draft_head_bytes = bytes.draft_head;
  info.bytes_per_token = bytes_per_token(model);
  // Memory is planned with the largest needs of any device, and the first device has the least memory left.
  info.kv_bytes_per_token = info.state_bytes = info.draft_state_bytes = 0;
  for (const StateLayout& layout : model.device_layouts()) {
    info.kv_bytes_per_token = std::max(info.kv_bytes_per_token, kv_bytes_per_token(layout, model.device()));
    info.state_bytes = std::max(info.state_bytes, fixed_bytes(layout, model.device()));
    info.draft_state_bytes = std::max(info.draft_state_bytes, window_bytes(layout));
  }
  info.draft_kv_bytes_per_token = kv_bytes_per_token(model.mtp_layout(), model.device());
  info.has_mtp = model.has_mtp();
}

std::string lossy_note(const Calibration& c, int layers) {
  const std::string perplexity =
      c.perplexity > 0 && c.skip_perplexity > 0
          ? fmt::format("on the text of calibration perplexity is {:.2f} instead of {:.2f}",
                        c.skip_perplexity, c.perplexity)
          : "what that does to perplexity was not measured";
  const std::string agreement =
      c.lossy_agreement > 0 ? fmt::format("the most likely token is the full model's in {:.0f} % of places",
                                          100 * c.lossy_agreement)
                            : "how often the most likely token changes was not measured";
  return fmt::format("{} of {} layers are left out, unverified: {}, and {}", c.skip_layers.size(), layers,
                     perplexity, agreement);
}

Error cannot_draft(DraftSource source, const ModelInfo& info, const ModelSpec& spec) {
  const std::string asked = fmt::format("speculation from \"{}\" was asked for, but ", name_of(source));
  switch (source) {
    case DraftSource::mtp:
      if (!spec.runs_mtp) return make_error(ErrorKind::invalid, "{}{} has no MTP head", asked, info.name);
      if (!spec.mtp_unsupported.empty())
        return make_error(ErrorKind::unsupported, "{}the MTP head of {} cannot be run: {}", asked, info.name,
                          spec.mtp_unsupported);
      if (spec.mtp_layers > 0)
        return make_error(
            ErrorKind::invalid,
            "{}the files of {} lack the MTP head that its config promises (mtp_num_hidden_layers "
            "is {}): add it from the original checkpoint with `anabranch convert --mtp-from`",
            asked, info.name, spec.mtp_layers);
      return make_error(ErrorKind::invalid, "{}{} has no MTP head", asked, info.name);
    case DraftSource::draft:
      return make_error(ErrorKind::invalid, "{}no draft model is loaded: name one with --draft", asked);
    default:
      if (info.lossy)
        return make_error(
            ErrorKind::invalid,
            "{}layers of {} are left out for good (--lossy-skip), and what calibration found of "
            "its layers does not hold without them",
            asked, info.name);
      return make_error(ErrorKind::invalid,
                        "{}{} was not calibrated for it: run `anabranch calibrate -m {}` first", asked,
                        info.name, info.path);
  }
}

}  // namespace anabranch
