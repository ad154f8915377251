#include "server/api/embedder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/base64.h"
#include "base/clock.h"
#include "server/api/ollama/format.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostAtOnce =
    8;  // texts of one request in the engine at a time, so that answers get their turn

bool is_ollama(EmbeddingFormat format) {
  return format == EmbeddingFormat::ollama || format == EmbeddingFormat::ollama_one;
}

// Little-endian 32-bit floats, as OpenAI's encoding_format "base64".
std::string base64_of(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  return to_base64({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

}  // namespace

std::vector<float> normalised(std::vector<float> values, int dimensions) {
  if (dimensions > 0) values.resize(std::min(values.size(), static_cast<size_t>(dimensions)));
  const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  if (square > 0)
    for (float& value : values) value = static_cast<float>(value / std::sqrt(square));
  return values;
}

Json no_embeddings(EmbeddingFormat format, const std::string& model) {
  if (format == EmbeddingFormat::ollama_one) return {{"embedding", Json::array()}};
  return {{"model", model}, {"embeddings", Json::array()}};
}

void Embedder::start(uint64_t key, ModelLease model, EmbeddingRequest request, KeyUse use, const Times& times,
                     std::shared_ptr<ResponseStream> out, std::shared_ptr<AnswerNote> note) {
  Job& job = jobs_[key];
  job.model = std::move(model);
  job.request = std::move(request);
  job.use = std::move(use);
  job.times = times;
  job.out = std::move(out);
  job.embeddings.resize(job.request.prompts.size());
  job.note = std::move(note);
  job.note->model = job.model->name;
  if (times.deadline.is_set()) watch_.start();
  submit_some(key);
}

void Embedder::forget(uint64_t key) {
  const auto it = jobs_.find(key);
  if (it == jobs_.end()) return;
  cancel(it->second);
  jobs_.erase(it);
}

bool Embedder::end_late_ones() {
  return fail_late_ones(
      jobs_, [](const Job& job) -> const Deadline& { return job.times.deadline; },
      [this](uint64_t key, const ApiError& error) { fail(key, error); });
}

void Embedder::submit_some(uint64_t key) {
  Job& job = jobs_.at(key);
  auto& prompts = job.request.prompts;
  while (job.running < kMostAtOnce && job.ids.size() < prompts.size()) {
    const size_t index = job.ids.size();
    Request request;
    request.prompt = std::move(prompts[index]);
    const int tokens = static_cast<int>(request.prompt.size());
    request.pooling = job.request.pooling;
    request.classes = job.request.classes;
    request.priority = job.use.priority().value_or(0);
    const auto id =
        job.model->engine->submit(std::move(request), [this, key, index, post = post_](const Event& event) {
          post([this, key, index, event] { receive(key, index, event); });
        });
    if (!id) return fail(key, id.error());
    job.note->prompt_tokens += tokens;
    job.use.add_tokens(tokens, now_seconds());
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
  job.embeddings[index] =
      job.request.classes.empty() ? normalised(event.embedding, job.request.dimensions) : event.embedding;
  if (job.ids.size() < job.embeddings.size()) return submit_some(key);
  if (job.running > 0) return;
  job.out->respond(json_response(answer(job)));
  jobs_.erase(key);
}

// The documents from best to worst, by the probability of "yes" or by the cosine similarity to the query.
Json Embedder::ranking(const Job& job) {
  struct Scored {
    size_t index;
    double score;
  };
  const auto& values = job.embeddings;
  std::vector<Scored> scored;
  const bool asked = !job.request.classes.empty();
  for (size_t i = asked ? 0 : 1; i < values.size(); i++) {
    const double score = asked
                             ? 1 / (1 + std::exp(static_cast<double>(values[i][1]) - values[i][0]))
                             : std::inner_product(values[i].begin(), values[i].end(), values[0].begin(), 0.0);
    scored.push_back({asked ? i : i - 1, score});
  }
  std::ranges::stable_sort(scored, std::greater(), &Scored::score);
  const bool tei = job.request.format == EmbeddingFormat::tei_ranking;
  const auto& documents = job.request.documents;
  Json results = Json::array();
  for (const auto& [index, score] : scored) {
    if (results.size() == job.request.most) break;
    results.push_back({{"index", index}, {tei ? "score" : "relevance_score", score}});
    if (documents.empty()) continue;
    if (tei)
      results.back()["text"] = documents[index];
    else
      results.back()["document"] = {{"text", documents[index]}};
  }
  if (tei) return results;
  return {{"object", "list"},
          {"model", job.model->name},
          {"results", std::move(results)},
          {"usage", {{"prompt_tokens", job.note->prompt_tokens}, {"total_tokens", job.note->prompt_tokens}}}};
}

Json Embedder::answer(Job& job) {
  const EmbeddingFormat format = job.request.format;
  if (format == EmbeddingFormat::ranking || format == EmbeddingFormat::tei_ranking) return ranking(job);
  if (format == EmbeddingFormat::ollama_one) return {{"embedding", std::move(job.embeddings.front())}};
  if (format == EmbeddingFormat::ollama)
    return {{"model", job.model->name},
            {"embeddings", std::move(job.embeddings)},
            {"total_duration", std::llround((now_seconds() - job.times.started) * 1e9)},
            {"load_duration", std::llround(job.times.load_s * 1e9)},
            {"prompt_eval_count", job.note->prompt_tokens}};
  Json data = Json::array();
  for (size_t i = 0; i < job.embeddings.size(); i++)
    data.push_back({{"object", "embedding"},
                    {"index", i},
                    {"embedding", format == EmbeddingFormat::base64 ? Json(base64_of(job.embeddings[i]))
                                                                    : Json(std::move(job.embeddings[i]))}});
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", job.model->name},
          {"usage", {{"prompt_tokens", job.note->prompt_tokens}, {"total_tokens", job.note->prompt_tokens}}}};
}

void Embedder::cancel(const Job& job) {
  for (size_t i = 0; i < job.ids.size(); i++)
    if (!job.done[i]) job.model->engine->cancel(job.ids[i]);
}

void Embedder::fail(uint64_t key, const ApiError& error) {
  const auto it = jobs_.find(key);
  cancel(it->second);
  it->second.out->respond(is_ollama(it->second.request.format) ? ollama_error_response(error)
                                                               : error_response(error));
  jobs_.erase(it);
}

void Embedder::cancel_all() {
  while (!jobs_.empty())
    fail(jobs_.begin()->first, {503, "The server is shutting down", "", "shutting_down"});
}

}  // namespace anabranch::server
