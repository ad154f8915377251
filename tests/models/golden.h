// Tiny random checkpoints, and what Hugging Face Transformers computes of them in fp32
// (tools/make_golden_logits.py).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"
#include "models/model.h"
#include "ops/testing.h"

namespace anabranch::golden {

namespace fs = std::filesystem;

struct Run {
  std::vector<int> prompt, positions, greedy;
  std::vector<float> log_probs;  // [positions, vocab]
};

struct Case {
  std::string model;
  int vocab = 0;
  std::vector<Run> runs;
};

inline Case read_case(const fs::path& dir) {
  const auto index = parse_json(*read_file((dir / "index.json").string(), 1 << 24));
  const auto data = *MappedFile::open((dir / (*index)["data"].get<std::string>()).string());
  Case out;
  out.model = (dir / (*index)["model"].get<std::string>()).string();
  out.vocab = (*index)["vocab"].get<int>();
  for (const Json& r : (*index)["runs"]) {
    Run run{r["prompt"].get<std::vector<int>>(),
            r["positions"].get<std::vector<int>>(),
            r["greedy"].get<std::vector<int>>(),
            {}};
    run.log_probs.resize(run.positions.size() * out.vocab);
    std::memcpy(run.log_probs.data(), data->bytes().data() + r["offset"].get<size_t>(),
                run.log_probs.size() * 4);
    out.runs.push_back(std::move(run));
  }
  return out;
}

inline std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(ANABRANCH_SOURCE_DIR "/tests/models/data"))
    if (fs::exists(entry.path() / "index.json")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Without GGUF files and Mistral's own: they are loaded into the same models, so that slow tests need not run
// them.
inline std::vector<std::string> directory_names() {
  auto names = case_names();
  std::erase_if(names, [](const std::string& name) {
    return name.ends_with("_gguf") || name.ends_with("_consolidated");
  });
  return names;
}

// Logits of every position, the prompt applied `chunk` tokens at a time.
inline std::vector<float> all_logits(const Model& model, SequenceState& state, const std::vector<int>& tokens,
                                     int chunk) {
  std::vector<float> out;
  for (int at = 0; at < static_cast<int>(tokens.size()); at += chunk) {
    const int n = std::min<int>(chunk, static_cast<int>(tokens.size()) - at);
    Batch batch;
    batch.add(state, {tokens.data() + at, static_cast<size_t>(n)}, Batch::Logits::none);
    for (int i = 0; i < n; i++) batch.logit_rows.push_back(i);
    const auto logits = to_host(model.forward(batch).logits);
    out.insert(out.end(), logits.data<float>(), logits.data<float>() + logits.size());
  }
  return out;
}

inline double log_sum_exp(const float* row, int n) {
  double best = row[0], sum = 0;
  for (int i = 0; i < n; i++) best = std::max<double>(best, row[i]);
  for (int i = 0; i < n; i++) sum += std::exp(row[i] - best);
  return best + std::log(sum);
}

// Of log-probs, over all positions and tokens.
struct Errors {
  double worst = 0, mean = 0;
};
inline Errors errors_of(const std::vector<float>& logits, const Run& run, int vocab) {
  Errors out;
  for (size_t p = 0; p < run.positions.size(); p++) {
    const float* row = logits.data() + static_cast<size_t>(run.positions[p]) * vocab;
    const double norm = log_sum_exp(row, vocab);
    for (int i = 0; i < vocab; i++) {
      const double error = std::abs(row[i] - norm - run.log_probs[p * vocab + i]);
      out.worst = std::max(out.worst, error);
      out.mean += error / static_cast<double>(run.log_probs.size());
    }
  }
  return out;
}

// On CUDA activations are rounded to bf16, and attention's operands to f16. Where two experts are nearly
// equal, a router may then choose the other one, and a few positions differ much: the mean is what is
// bounded. How much a model makes of such roundings is its own: twice what the CPU's 8-bit activations, which
// are as coarse, make of it is allowed where that is more. Rows that are applied at a time change no bit.
// Skips models without kernels, and prompts beyond `most_tokens`.
inline void expect_close_on_cuda(const Case& golden, Device& device, const std::vector<int>& chunks,
                                 size_t most_tokens) {
  constexpr double kMeanTolerance = 0.2;
  auto checkpoint = Checkpoint::open(golden.model);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto model = Model::load(**checkpoint, device);
  if (!model && model.error().kind == ErrorKind::unsupported) GTEST_SKIP() << model.error().message;
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto again = Checkpoint::open(golden.model);
  ASSERT_TRUE(again.ok()) << again.error().message;
  const auto cpu = Model::load(**again, ops::cpu_device());
  ASSERT_TRUE(cpu.ok()) << cpu.error().message;
  for (const auto& run : golden.runs) {
    if (run.prompt.size() > most_tokens) continue;
    auto whole_state = (*model)->make_state();
    const auto whole = all_logits(**model, whole_state, run.prompt, 1 << 20);
    auto cpu_state = (*cpu)->make_state();
    const auto rounded = errors_of(all_logits(**cpu, cpu_state, run.prompt, 1 << 20), run, golden.vocab);
    EXPECT_LT(errors_of(whole, run, golden.vocab).mean, std::max(kMeanTolerance, 2 * rounded.mean))
        << run.prompt.size() << " tokens";
    for (const int rows : chunks) {
      auto state = (*model)->make_state();
      const auto chunked = all_logits(**model, state, run.prompt, rows);
      ASSERT_EQ(whole.size(), chunked.size());
      EXPECT_EQ(0, std::memcmp(whole.data(), chunked.data(), whole.size() * 4)) << rows << " rows at once";
    }
  }
}

}  // namespace anabranch::golden
