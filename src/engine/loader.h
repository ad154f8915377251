// From a path to everything a conversation needs: model, tokenizer, chat template and the model's
// recommendations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "models/calibration.h"
#include "models/model.h"

namespace anabranch {

struct LoadedModel {
  std::shared_ptr<Device> device;  // outlives the model
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null when the model brings none
  SamplingParams sampling;                            // generation_config.json, or greedy
  std::vector<int> eos;                               // ids that end a turn, sorted
  Calibration calibration;                            // speculation.json beside the model, or nothing
  ModelInfo info;
};

enum class LoadedFor { answers, drafts };  // drafts: for another model

// Everything, on the calling thread. Errors name the file.
Result<LoadedModel> load_model(const std::string& path, std::shared_ptr<Device> device,
                               LoadedFor purpose = LoadedFor::answers);

// An engine over what `load` returns on its thread, on the device that the options ask for: Engine::create
// with another source than a path.
using LoadFunction = std::function<Result<LoadedModel>(std::shared_ptr<Device>)>;
Result<std::unique_ptr<Engine>> create_engine(const EngineOptions& options, LoadFunction load);

// What can be said of a model itself.
void describe(const Model& model, ModelInfo& info);

// Why speculation from this source is not possible, and what to do.
Error cannot_draft(DraftSource source, const ModelInfo& info, const ModelSpec& spec);

// What leaving out a calibration's skip_layers, of a model of `layers`, is known to do.
std::string lossy_note(const Calibration& calibration, int layers);

// The parts that need no weights.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const Checkpoint& checkpoint);

}  // namespace anabranch
