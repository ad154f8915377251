// Loads everything that a conversation needs from a path: model, tokenizer, chat template and recommended
// sampling parameters.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "models/calibration.h"
#include "models/model.h"
#include "models/vision_tower.h"

namespace anabranch {

struct LoadedModel {
  std::shared_ptr<Device> device;  // outlives the model
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: the model has none
  std::unique_ptr<VisionTower> tower;                 // null: the model reads no images
  std::optional<ImageFormat> image_format;            // with a tower
  std::string tower_path;        // the tower's file if it differs from the model's; empty: the same file
  std::string template_problem;  // why the model's template cannot be used, or empty
  SamplingParams sampling;       // recommended by the files, or else our default
  std::string sampling_from;     // "generation_config.json", "GGUF metadata" or "default"
  std::vector<int> eos;          // ids that end a turn, sorted
  Calibration calibration;       // speculation.json beside the model, or empty
  ModelInfo info;
  Json config;  // the checkpoint's; for adapters
};

enum class LoadedFor { answers, drafts };  // drafts: as the draft model of another model

struct LoadOptions {
  LoadedFor purpose = LoadedFor::answers;
  bool overcommit = false;  // weights that are larger than the free memory are loaded with a warning
  std::function<void(int done, int total)> progress = {};  // after each layer; may be empty
};

// Loads on the calling thread. Errors name the file; exhausted: the weights are larger than the free memory.
Result<LoadedModel> load_model(const std::string& path, std::shared_ptr<Device> device,
                               const LoadOptions& wanted = {});

// Engine::create with a load function instead of a path. `load` runs on the engine's thread and gets the
// device that the options name.
using LoadFunction = std::function<Result<LoadedModel>(std::shared_ptr<Device>)>;
Result<std::unique_ptr<Engine>> create_engine(const EngineOptions& options, LoadFunction load);

// Fills the fields that depend on the model alone.
void describe(const Model& model, ModelInfo& info);

// An error that says why this draft source is not available, and what to do.
Error cannot_draft(DraftSource source, const ModelInfo& info, const ModelSpec& spec);

// A note on the measured effect of leaving out the calibration's skip_layers of a model with `layers` layers.
std::string lossy_note(const Calibration& calibration, int layers);

// Loads without weights.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const Checkpoint& checkpoint);
// The chat template's text: chat_template.jinja, tokenizer_config.json's "chat_template" (a string, or a list
// of named ones), a processor's chat_template.json, or GGUF metadata. Empty when there is none. Errors:
// invalid (JSON).
Result<std::string> chat_template_source(const Checkpoint& checkpoint);
// Null when the model has no chat template. Errors: see ChatTemplate::parse.
Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const Checkpoint& checkpoint,
                                                               const Tokenizer& tokenizer);
// Reads a file that contains only a template. Errors: see ChatTemplate::parse, and those of reading.
Result<std::shared_ptr<const ChatTemplate>> read_chat_template(const std::string& path,
                                                               const Tokenizer& tokenizer);
// How the model pools embeddings: Sentence Transformers' folder 1_Pooling, or GGUF's pooling_type. Nothing:
// it is not made for embeddings.
std::optional<Pooling> read_pooling(const Checkpoint& checkpoint);

}  // namespace anabranch
