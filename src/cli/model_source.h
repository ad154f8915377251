// The models that `serve` can load: that of --model, those of [model.NAME], and the stored ones.
#pragma once

#include <string>

#include "cli/serve_options.h"
#include "server/api/model_source.h"

namespace anabranch::cli {

// Errors: invalid (a malformed address, or a key file without a key).
Result<PeerOptions> peer_options(const ServeOptions& options);

// The adapters of --lora. Errors: invalid (not NAME=PATH, or a name that cannot be one or is there twice).
Result<std::vector<server::NamedAdapter>> named_adapters(const ServeOptions& options);

// Loads the model that the options name, without its adapters. A terminal shows a progress line meanwhile.
Result<server::ReadyModel> load_for_serving(const ServeOptions& options);

// Finds, measures and loads the models of `serve`. first: name of the model that `options` themselves name;
// "": they name none.
server::ModelSource model_source(const ServeOptions& options, const std::string& first);

}  // namespace anabranch::cli
