#include "cli/convert_text.h"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "cli/comparison.h"
#include "cli/conversation.h"
#include "cli/print.h"
#include "models/importance.h"

namespace anabranch::cli {
namespace {

constexpr int kWindow = 512;
constexpr size_t kMaxText = 64u << 20;
constexpr size_t kHeldOut = 10;  // a tenth

void show_progress(const std::string& what) {
  static const bool terminal = isatty(STDERR_FILENO);
  if (terminal) say(stderr, "\r\033[K{}", what);
}

// The tokens of a line {"text": "..."} or {"messages": [...]}.
Result<std::vector<int>> read_line(std::string_view line, const LoadedModel& loaded) {
  TRY(const Json json, parse_json(line));
  const auto messages = json.is_object() ? json.find("messages") : json.end();
  if (messages != json.end()) {
    if (!loaded.chat_template)
      return make_error(ErrorKind::unsupported, "it has \"messages\", but {} brings no chat template",
                        loaded.info.name);
    TRY(const auto pieces, loaded.chat_template->render(*messages, {}, {.add_generation_prompt = false}));
    return loaded.tokenizer->encode(pieces);
  }
  const std::string text = string_at(json, "text");
  if (text.empty()) return make_error(ErrorKind::invalid, "it has neither \"text\" nor \"messages\"");
  return loaded.tokenizer->encode(text, false);
}

// A text is one document, and so is every line of a .jsonl file.
Result<Documents> read_documents(const std::string& path, const LoadedModel& loaded) {
  TRY(const std::string text, read_file(path, kMaxText));
  if (!path.ends_with(".jsonl")) return Documents{loaded.tokenizer->encode(text, false)};
  Documents out;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    number++;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto tokens = read_line(line, loaded);
    if (!tokens.ok())
      return make_error(tokens.error().kind, "{}: line {}: {}", path, number, tokens.error().message);
    out.push_back(std::move(*tokens));
  }
  return out;
}

size_t token_count(const Documents& documents) {
  size_t count = 0;
  for (const auto& tokens : documents) count += tokens.size();
  return count;
}

Result<void> check_documents(const Documents& documents, const std::string& path, const LoadedModel& loaded) {
  bool any = false;
  for (const auto& tokens : documents) {
    any = any || tokens.size() > 1;
    for (const int id : tokens)
      if (id >= loaded.model->spec().vocab)
        return make_error(ErrorKind::invalid, "the tokenizer of {} gives id {}, beyond the model's {}",
                          loaded.info.name, id, loaded.model->spec().vocab);
  }
  if (!any) return make_error(ErrorKind::invalid, "{} has fewer than two tokens", path);
  return {};
}

// Takes the last tenth of the tokens away.
Documents split_off_end(Documents& documents) {
  size_t left = token_count(documents) / kHeldOut;
  Documents out;
  while (left > 0) {
    std::vector<int>& last = documents.back();
    const size_t count = std::min(left, last.size());
    out.insert(out.begin(), std::vector<int>(last.end() - static_cast<std::ptrdiff_t>(count), last.end()));
    last.resize(last.size() - count);
    left -= count;
    if (last.empty()) documents.pop_back();
  }
  return out;
}

// Calls read(tokens, progress) for each document; progress is to be called with the tokens read of it.
template <class Read>
void for_documents(const Documents& documents, const std::string& what, const Read& read) {
  size_t done = 0;
  const size_t total = token_count(documents);
  for (const auto& tokens : documents) {
    read(tokens, [&](size_t count, auto) {
      show_progress(fmt::format("{}: {} of {} tokens", what, done + count, total));
    });
    done += tokens.size();
  }
  show_progress("");
}

void read_all(const LoadedModel& loaded, const Documents& documents) {
  for_documents(documents, "calibrating", [&](const auto& tokens, const auto& progress) {
    measure_likelihood(*loaded.model, tokens, std::min(kWindow, loaded.info.context_length),
                       leading_bos(*loaded.tokenizer), progress);
  });
}

// Loads a model with fp32 activations, because only weights are to be compared.
Result<LoadedModel> load_precise(const std::string& path) {
  return load_on_device({.model_path = path, .device = {.precise = true}});
}

}  // namespace

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

Result<SourceFindings> measure_source(const std::string& source, const ConvertTexts& texts) {
  TRY(const LoadedModel loaded, load_precise(source));
  SourceFindings out;
  Documents calibration;
  if (!texts.calibration.empty()) {
    TRY(calibration, read_documents(texts.calibration, loaded));
    if (texts.perplexity == texts.calibration) out.held_out = split_off_end(calibration);
    TRY_VOID(check_documents(calibration, texts.calibration, loaded));
    ImportanceCollector collector(*loaded.device);
    read_all(loaded, calibration);
    out.importance = collector.importance();
    out.calibration_tokens = static_cast<int64_t>(token_count(calibration));
  }
  if (texts.perplexity.empty()) return out;
  if (texts.perplexity != texts.calibration) {
    TRY(out.held_out, read_documents(texts.perplexity, loaded));
  }
  TRY_VOID(check_documents(out.held_out, texts.perplexity, loaded));
  return out;
}

Result<Comparison> measure_result(const std::string& source, const std::string& output,
                                  const Documents& held_out) {
  TRY(const LoadedModel result, load_precise(output));
  TRY(const LoadedModel original, load_original(source, result));
  const int window = std::min({kWindow, result.info.context_length, original.info.context_length});
  Comparison sum;
  for_documents(held_out, "comparing with the source", [&](const auto& tokens, const auto& progress) {
    sum.add(compare_models(*original.model, *result.model, tokens, window, leading_bos(*original.tokenizer),
                           progress));
  });
  return sum;
}

Json findings_json(const ConvertTexts& texts, const SourceFindings& source, const Comparison& result) {
  Json out = Json::object();
  if (!texts.calibration.empty())
    out["calibration"] = {{"text", file_name(texts.calibration)}, {"tokens", source.calibration_tokens}};
  if (texts.perplexity.empty()) return out;
  out["perplexity"] = {{"text", file_name(texts.perplexity)},
                       {"window", kWindow},
                       {"predicted", result.model.predicted},
                       {"source", result.original.perplexity()},
                       {"result", result.model.perplexity()}};
  out["perplexity"].update(divergence_json(result));
  return out;
}

}  // namespace anabranch::cli
