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

void TraceEraser::erase(std::function<void()> done) {
  std::vector<DiskRecord> records;
  std::vector<uint64_t> turns;
  for (const std::string& trace : stores_->take_released()) {
    if (trace.starts_with(kTurn))
      std::from_chars(trace.data() + kTurn.size(), trace.data() + trace.size(), turns.emplace_back(), 16);
    else if (const auto record = parse_full_name(trace))
      records.push_back(*record);
  }
  post_([this, records = std::move(records), turns = std::move(turns), done = std::move(done)]() mutable {
    if (records.empty() && turns.empty()) return done();
    erase(std::move(records), std::move(turns), std::move(done));
  });
}

void TraceEraser::erase(std::vector<DiskRecord> records, std::vector<uint64_t> turns,
                        std::function<void()> done) {
  const auto loaded = std::make_shared<std::vector<ModelLease>>();
  for (const auto* entry : models_.entries())
    if (entry->state == ModelState::loaded && entry->model->engine->shared_states())
      models_.acquire(entry->name, [loaded](const std::variant<ModelLease, ApiError>& taken) {
        if (const auto* lease = std::get_if<ModelLease>(&taken)) loaded->push_back(*lease);
      });
  workers_.submit([records = std::move(records), turns = std::move(turns), done = std::move(done), loaded,
                   directory = directory_, post = post_]() mutable {
    for (const ModelLease& model : *loaded) {
      SharedStates& states = *model->engine->shared_states();
      states.forget(records);
      std::erase_if(records,
                    [&](const DiskRecord& record) { return record.fingerprint == states.fingerprint(); });
    }
    if (!directory.empty()) {
      if (const auto gone = forget_records(directory, std::move(records)); !gone)
        log_warning("states of removed conversations stay: {}", gone.error().message);
      if (const auto gone = forget_turns(directory + "/turns.db", turns); !gone)
        log_warning("{}", gone.error().message);
    }
    loaded->clear();
    post(std::move(done));
  });
}

}  // namespace anabranch::server
