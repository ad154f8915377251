#include "server/api/embedder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/clock.h"
#include "server/api/ollama_format.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostAtOnce = 8;  // texts of one request in the engine, so that answers get their turn

bool is_ollama(EmbeddingForm form) {
  return form == EmbeddingForm::ollama || form == EmbeddingForm::ollama_one;
}

}  // namespace

std::vector<float> normalised(std::vector<float> values, int dimensions) {
  if (dimensions > 0) values.resize(std::min(values.size(), static_cast<size_t>(dimensions)));
  const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  if (square > 0)
    for (float& value : values) value = static_cast<float>(value / std::sqrt(square));
  return values;
}

std::string to_base64(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  const size_t size = values.size() * sizeof(float);
  std::string text;
  text.reserve((size + 2) / 3 * 4);
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = std::min<size_t>(3, size - i);
    unsigned word = 0;
    for (size_t k = 0; k < 3; k++) word = word << 8 | (k < left ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; k++) text += k <= left ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

void Embedder::start(ModelLease model, EmbeddingRequest request, KeyUse use, const Times& times,
                     std::shared_ptr<ResponseStream> out) {
  const uint64_t key = next_key_++;
  Job& job = jobs_[key];
  job.model = std::move(model);
  job.request = std::move(request);
  job.use = std::move(use);
  job.times = times;
  job.out = std::move(out);
  job.embeddings.resize(job.request.prompts.size());
  job.out->on_client_left([this, key] {
    const auto it = jobs_.find(key);
    if (it == jobs_.end()) return;
    cancel(it->second);
    jobs_.erase(it);
  });
  if (const double allowed_s = times.allowed_s; allowed_s > 0)
    after_(std::max(0.0, times.started + allowed_s - now_seconds()),
           [this, key, allowed_s] { fail(key, timeout_error(allowed_s)); });
  submit_some(key);
}

void Embedder::submit_some(uint64_t key) {
  Job& job = jobs_.at(key);
  auto& prompts = job.request.prompts;
  while (job.running < kMostAtOnce && job.ids.size() < prompts.size()) {
    const size_t index = job.ids.size();
    Request request;
    request.prompt = std::move(prompts[index]);
    request.pooling = job.model->engine->info().pooling;
    request.priority = job.use.priority().value_or(0);
    const auto id =
        job.model->engine->submit(std::move(request), [this, key, index, post = post_](const Event& event) {
          post([this, key, index, event] { receive(key, index, event); });
        });
    if (!id) return fail(key, to_api_error(id.error()));
    job.ids.push_back(*id);
    job.done.push_back(false);
    ++job.running;
  }
}

void Embedder::receive(uint64_t key, size_t index, const Event& event) {
  const auto it = jobs_.find(key);
  if (it == jobs_.end() || event.finish == FinishReason::none) return;
  Job& job = it->second;
  job.done[index] = true;
  --job.running;
  if (event.finish == FinishReason::error)
    return fail(key, {500, "The engine failed: " + event.error, "", "engine_error"});
  if (event.finish == FinishReason::cancelled)
    return fail(key, {503, "The engine cancelled the request", "", "cancelled"});
  job.embeddings[index] = normalised(event.embedding, job.request.dimensions);
  job.tokens += event.usage.prompt_tokens;
  job.use.add_tokens(event.usage.prompt_tokens, now_seconds());
  if (job.ids.size() < job.embeddings.size()) return submit_some(key);
  if (job.running > 0) return;
  job.out->note(std::make_shared<AnswerNote>(AnswerNote{"", job.model->name, job.tokens, 0, 0}));
  job.out->respond(json_response(answer(job)));
  jobs_.erase(key);
}

Json Embedder::answer(Job& job) {
  const EmbeddingForm form = job.request.form;
  if (form == EmbeddingForm::ollama_one) return {{"embedding", std::move(job.embeddings.front())}};
  if (form == EmbeddingForm::ollama)
    return {{"model", job.model->name},
            {"embeddings", std::move(job.embeddings)},
            {"total_duration", std::llround((now_seconds() - job.times.started) * 1e9)},
            {"load_duration", std::llround(job.times.load_s * 1e9)},
            {"prompt_eval_count", job.tokens}};
  Json data = Json::array();
  for (size_t i = 0; i < job.embeddings.size(); i++)
    data.push_back({{"object", "embedding"},
                    {"index", i},
                    {"embedding", form == EmbeddingForm::base64 ? Json(to_base64(job.embeddings[i]))
                                                                : Json(std::move(job.embeddings[i]))}});
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", job.model->name},
          {"usage", {{"prompt_tokens", job.tokens}, {"total_tokens", job.tokens}}}};
}

void Embedder::cancel(const Job& job) {
  for (size_t i = 0; i < job.ids.size(); i++)
    if (!job.done[i]) job.model->engine->cancel(job.ids[i]);
}

void Embedder::fail(uint64_t key, const ApiError& error) {
  const auto it = jobs_.find(key);
  if (it == jobs_.end()) return;  // it has ended before its time was over
  cancel(it->second);
  it->second.out->respond(is_ollama(it->second.request.form) ? ollama_error_response(error)
                                                             : error_response(error));
  jobs_.erase(it);
}

void Embedder::cancel_all() {
  while (!jobs_.empty())
    fail(jobs_.begin()->first, {503, "The server is shutting down", "", "shutting_down"});
}

}  // namespace anabranch::server
