// Flags that several sub-commands share.
#pragma once

#include "cli/flag_table.h"
#include "cli/options.h"

namespace anabranch::cli {

FlagGroup model_flags(EngineOptions& o);
FlagGroup choice_flags(bool& yes);  // of sub-commands that offer models if --model is missing
FlagGroup context_flags(EngineOptions& o);
FlagGroup adapter_flags(AdapterFlags& o);
// sampling_flags has the sampler's, and seed, length and stop strings, too.
FlagGroup sampler_flags(SamplingOptions& o);
FlagGroup sampling_flags(SamplingOptions& o);
FlagGroup spec_flags(EngineOptions& engine, SpecFlags& o);
FlagGroup cache_flags(EngineOptions& engine, CacheFlags& o);
FlagGroup thinking_flags(ThinkFlags& o);
FlagGroup mcp_flags(McpFlags& o);

Flag device_flag(std::string& device);
Flag image_flag(std::vector<std::string>& files, const char* help);
Flag json_flag(bool& json, const char* help = "Print JSON");

}  // namespace anabranch::cli
