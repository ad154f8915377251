#include "models/perplexity.h"

#include <algorithm>

namespace anabranch {
namespace {

constexpr size_t kRows = 128;  // per forward: bounds the logits' memory

}  // namespace

Prediction judge(const float* logits, int vocab, int token, size_t at) {
  const float* best = std::max_element(logits, logits + vocab);
  double sum = 0;
  for (int i = 0; i < vocab; i++) sum += std::exp(static_cast<double>(logits[i]) - *best);
  return {at, logits[token] - *best - std::log(sum), static_cast<int>(best - logits)};
}

Tensor WindowReader::next() {
  const size_t count = std::min(kRows, ids_.size() - at_);
  Batch batch;
  batch.add(state_, ids_.subspan(at_, count), Batch::Logits::none);
  for (size_t i = 0; i < count && at_ + i + 1 < ids_.size(); i++)
    batch.logit_rows.push_back(static_cast<int>(i));
  at_ += count;
  return to_host(model_.forward(batch).logits);
}

void for_each_window(std::span<const int> tokens, int window, std::optional<int> bos,
                     const std::function<void(std::span<const int> ids, size_t begin, size_t end)>& visit) {
  for (size_t at = 0; at < tokens.size();) {
    const size_t added = bos && window > 1 && tokens[at] != *bos ? 1 : 0,
                 count = std::min(static_cast<size_t>(window) - added, tokens.size() - at);
    std::vector<int> ids(added, bos.value_or(0));
    const auto part = tokens.subspan(at, count);
    ids.insert(ids.end(), part.begin(), part.end());
    if (ids.size() < 2) break;
    visit(ids, at, at + count);
    at += count;
  }
}

Likelihood measure_likelihood(const Model& model, std::span<const int> tokens, int window,
                              std::optional<int> bos, const AfterWindow& after_window) {
  Likelihood out;
  const int vocab = model.spec().vocab;
  for_each_window(tokens, window, bos, [&](std::span<const int> ids, size_t, size_t end) {
    std::vector<Prediction> predictions;
    for (WindowReader reader(model, ids); !reader.done();) {
      const size_t first = reader.at() + 1;  // the first predicted token's index in the window
      const Tensor logits = reader.next();
      for (int64_t row = 0; row < logits.shape(0); row++) {
        const size_t at = first + static_cast<size_t>(row);
        // The window's last token is the text's at end - 1.
        predictions.push_back(
            judge(logits.data<float>() + row * vocab, vocab, ids[at], at + end - ids.size()));
        out.add(predictions.back().logprob);
      }
    }
    if (after_window) after_window(end, predictions);
  });
  return out;
}

}  // namespace anabranch
