// Everything that is loaded once and shared by all requests: the device, the model, its draft sources, and
// tables about its vocabulary for the constraints. Immutable after load(), except for speculation statistics.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "decode/answer_grammar.h"
#include "decode/call_names.h"
#include "engine/loader.h"
#include "engine/sequence.h"

namespace anabranch {

struct AdapterFile;

class EngineModel {
 public:
  // Call on the engine thread. Errors: unusable files or device, options that do not fit the model.
  Result<void> load(const EngineOptions& options, const LoadFunction& load);
  // Saves the costs and acceptance rates of speculation, if the options ask for it.
  void save_statistics() const;

  Device& device() const { return *device_; }
  // Lets the device compile the kernels that passes with the adapter need, and waits for them, unless earlier
  // adapters changed the same projections. file: the adapter's.
  void prepare_adapters(const nn::Adapter& adapter, const AdapterFile& file);
  const Model& model() const { return *loaded_.model; }
  const LoadedModel& loaded() const { return loaded_; }
  ModelInfo& info() { return loaded_.info; }
  const ModelInfo& info() const { return loaded_.info; }
  const Tokenizer& tokenizer() const { return *loaded_.tokenizer; }
  SpecResources& speculation() { return speculation_; }
  const SpecResources& speculation() const { return speculation_; }
  // Null: the model reads no images. Both or none.
  const VisionTower* tower() const { return loaded_.tower.get(); }
  const ImageFormat* image_format() const { return loaded_.image_format ? &*loaded_.image_format : nullptr; }
  GrammarCompiler& grammars() const { return *grammars_; }

  // Adds the sequence's constraints, in order: thinking control, grammar or names of calls, end of turn, stop
  // strings. Answer tokens at the end of the prompt are applied to the grammar and the names.
  void constrain(Sequence& sequence) const;
  // Checks that an answer with this grammar may begin with these tokens. Errors: invalid.
  Result<void> check_beginning(std::shared_ptr<const CompiledGrammar> grammar,
                               std::span<const int> tokens) const;

 private:
  Result<void> drop_layers();
  void finish_kernels();
  Result<void> load_draft_model(const std::string& path);
  void use_calibration();
  void load_statistics(const EngineOptions& options);
  void describe_tokens();
  void make_grammar_compiler();
  ThinkRules think_rules(const Request& request) const;

  std::shared_ptr<Device> device_;  // outlives everything below
  LoadedModel loaded_, draft_;
  SpecResources speculation_;
  std::string statistics_path_;        // empty: statistics are not saved
  std::vector<uint8_t> token_traits_;  // by token
  ThinkTokens think_tokens_;
  std::optional<ReasoningTags> reasoning_;
  std::vector<int> call_tokens_;  // tokens that open a tool call, sorted
  TokensByByte tokens_by_byte_;
  std::unique_ptr<GrammarCompiler> grammars_;
  std::set<std::string> adapted_;  // projections for whose adapters there are kernels
};

}  // namespace anabranch
