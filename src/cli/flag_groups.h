// Flags that several sub-commands share, in groups under a heading of the help.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace anabranch::cli {

void add_model_flags(CLI::App& app, ModelOptions& o);
void add_context_flag(CLI::App& app, ModelOptions& o);
// add_sampling_flags adds seed, length and stop strings, too.
void add_sampler_flags(CLI::App& app, SamplingOptions& o);
void add_sampling_flags(CLI::App& app, SamplingOptions& o);
void add_spec_flags(CLI::App& app, SpecOptions& o);
void add_cache_flags(CLI::App& app, CacheFlags& o);
void add_peer_flags(CLI::App& app, PeerFlags& o);
void add_thinking_flags(CLI::App& app, ThinkFlags& o);

// A number in a range; CLI::Range lets NaN through.
CLI::Validator number_in(float low, float high);

}  // namespace anabranch::cli
