// Readers of keys that a single member of the Llama family has (Member::own and Member::in_usual_form).
#pragma once

#include "models/family_config.h"

namespace anabranch {

void read_mimo(ConfigReader& config, const Json& json, ModelSpec& spec);
void read_laguna(ConfigReader& config, const Json& json, ModelSpec& spec);
void read_step(ConfigReader& config, const Json& json, ModelSpec& spec);
Json step_in_usual_form(Json config);
void read_hy_v3(ConfigReader& config, const Json& json, ModelSpec& spec);
void read_afmoe(ConfigReader& config, const Json& json, ModelSpec& spec);
Json exaone_in_usual_form(Json config);
Json internlm3_in_usual_form(Json config);
Json sarvam_in_usual_form(Json config);
Json flint_in_usual_form(Json config);
void read_muse(ConfigReader& config, const Json& json, ModelSpec& spec);

}  // namespace anabranch
