#include "server/api/trace_eraser.h"

#include <charconv>

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

void TraceEraser::erase(std::function<void()> done) {
  Traces traces = parse_traces(stores_->take_released());
  post_([this, traces = std::move(traces), done = std::move(done)]() mutable {
    if (traces.records.empty() && traces.turns.empty()) return done();
    erase(std::move(traces), std::move(done));
  });
}

void TraceEraser::erase(Traces traces, std::function<void()> done) {
  const auto loaded = std::make_shared<std::vector<ModelLease>>();
  for (const auto* entry : models_.entries())
    if (entry->state == ModelState::loaded && entry->model->engine->shared_states())
      models_.acquire(entry->name, [loaded](const std::variant<ModelLease, ApiError>& taken) {
        if (const auto* lease = std::get_if<ModelLease>(&taken)) loaded->push_back(*lease);
      });
  workers_.submit([traces = std::move(traces), done = std::move(done), loaded, directory = directory_,
                   post = post_]() mutable {
    for (const ModelLease& model : *loaded) {
      SharedStates& states = *model->engine->shared_states();
      states.forget(traces.records);
      std::erase_if(traces.records,
                    [&](const DiskRecord& record) { return record.fingerprint == states.fingerprint(); });
    }
    if (!directory.empty())
      if (const auto gone = erase_on_disk(directory, traces); !gone)
        log_warning("states of removed conversations stay: {}", gone.error().message);
    loaded->clear();
    post(std::move(done));
  });
}

}  // namespace anabranch::server
