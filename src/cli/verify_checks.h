// The checks of `verify` that need a loaded model. Most run the model in two ways that must give the same
// tokens.
#pragma once

#include <string>
#include <vector>

#include "cli/conversation.h"

namespace anabranch::cli {

// info: a measurement for the reader, without a right or wrong value.
enum class Verdict { not_run, pass, fail, not_applicable, info };

struct Finding {
  Verdict verdict = Verdict::not_run;
  std::string details;
  std::string appendix{};  // Markdown below the table; empty: none
};

struct VerifySubject {
  Engine& engine;
  Preparer& preparer;            // of the engine
  std::string template_problem;  // see LoadedModel
  // Filled by the checks that need them.
  std::vector<std::vector<int>> plain;  // answers to the fixed prompts, without speculation, cache or batch
};

// All answers are greedy. Errors: the engine refused or failed; the check counts as failed.
Result<Finding> check_tokenizer(VerifySubject& subject);
Result<Finding> check_template(VerifySubject& subject);
Result<Finding> show_greedy_text(VerifySubject& subject);
// source: `none` stands for "auto".
Result<Finding> check_speculation(VerifySubject& subject, DraftSource source);
Result<Finding> check_cache(VerifySubject& subject);
Result<Finding> check_batch(VerifySubject& subject);
Result<Finding> measure_speed(VerifySubject& subject);
Result<Finding> measure_needle(VerifySubject& subject);

}  // namespace anabranch::cli
