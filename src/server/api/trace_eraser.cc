#include "server/api/trace_eraser.h"

#include <charconv>
#include <utility>

#include "base/log.h"
#include "chat/turn_memory.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kTurn = "turn-";

}  // namespace

std::string turn_trace(uint64_t key) {
  return fmt::format("{}{:016x}", kTurn, key);
}

Traces parse_traces(std::span<const std::string> names) {
  Traces traces;
  for (const std::string& name : names) {
    if (name.starts_with(kTurn))
      std::from_chars(name.data() + kTurn.size(), name.data() + name.size(), traces.turns.emplace_back(), 16);
    else if (const auto record = parse_full_name(name))
      traces.records.push_back(*record);
  }
  return traces;
}

Result<void> erase_on_disk(const std::string& directory, const Traces& traces) {
  const auto records = forget_records(directory, traces.records);
  if (const auto turns = forget_turns(directory + "/turns.db", traces.turns); !turns) return turns.error();
  return records;
}

// The models of this server that may have cached states.
struct TraceEraser::Models {
  std::vector<ModelLease> loaded;
  // Models that are unloaded after their last answers. This may take long, so nothing waits for them.
  std::vector<std::weak_ptr<ServedModel>> draining;
};

void TraceEraser::erase(std::function<void()> done) {
  workers_.submit([this, done = std::move(done)]() mutable {
    if (!stores_->has_released()) return post_(std::move(done));
    post_([this, done = std::move(done)]() mutable { collect(std::move(done)); });
  });
}

// Collects the models that may have cached states, after those being unloaded are gone; then a worker erases.
// Runs on the I/O thread.
void TraceEraser::collect(std::function<void()> done) {
  const auto models = std::make_shared<Models>();
  for (const auto* entry : models_.entries()) {
    // The model may still be writing cached states, which takes seconds: begin again when it is unloaded.
    if (entry->state == ModelState::unloading)
      return models_.unload(entry->name, [this, done = std::move(done)](const auto&) { collect(done); });
    if (!entry->model || !entry->model->engine->shared_states()) continue;
    if (entry->state == ModelState::draining)
      models->draining.push_back(entry->model);
    else
      models_.acquire(entry->name, [models](const ApiResult<ModelLease>& taken) {
        if (taken) models->loaded.push_back(*taken);
      });
  }
  workers_.submit([this, models, done = std::move(done)]() mutable {
    for (const auto& model : std::exchange(models->draining, {})) {
      models->loaded.push_back(model.lock());
      if (!models->loaded.back())  // it is being unloaded
        return post_([this, done = std::move(done)]() mutable { collect(std::move(done)); });
    }
    take_and_erase(*models);
    models->loaded.clear();
    post_(std::move(done));
  });
}

void TraceEraser::take_and_erase(const Models& models) {
  auto names = stores_->take_released();
  Result<void> gone;
  if (names) {
    post_([this, names = *names] { released_(names); });
    Traces traces = parse_traces(*names);
    for (const ModelLease& model : models.loaded) {
      model->preparer.forget_turns(traces.turns);
      SharedStates& states = *model->engine->shared_states();
      states.forget(traces.records);
      std::erase_if(traces.records,
                    [&](const DiskRecord& record) { return record.fingerprint == states.fingerprint(); });
    }
    if (!directory_.empty()) gone = erase_on_disk(directory_, traces);
    if (!gone) stores_->put_back(*names);
  } else {
    gone = names.error();
  }
  if (!gone) log_warning("cache entries of removed conversations stay for now: {}", gone.error().message);
}

}  // namespace anabranch::server
