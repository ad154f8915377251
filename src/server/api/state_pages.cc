#include "server/api/state_pages.h"

#include <charconv>
#include <utility>

#include "cache/shared_states.h"
#include "peers/lookup.h"

namespace anabranch::server {
namespace {

// The limit of records that are sent at a time, because each stays in memory until the other worker has it.
constexpr int kMostUnderWay = 64;

void refuse(ResponseStream& out, int status, const char* code, std::string message) {
  out.respond(error_response({status, std::move(message), "", code}));
}

const SharedStates* states_of(const ModelPool::Entry& entry) {
  return entry.model ? entry.model->engine->shared_states() : nullptr;
}

// "host:port", "[::1]:port" or "host" without a port.
struct HostAndPort {
  std::string host;
  int port = 80;
};
HostAndPort split(const std::string& text) {
  HostAndPort parts{text};
  const size_t colon = text.rfind(':');
  if (colon == text.npos || text.find(']', colon) != text.npos) return parts;
  parts.host = text.substr(0, colon);
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), parts.port);
  return parts;
}

}  // namespace

void StatePages::with_model(const std::string& fingerprint, const std::shared_ptr<ResponseStream>& out,
                            std::function<void(ModelLease)> use) {
  std::string here;
  for (const auto* entry : models_.entries()) {
    const SharedStates* states = states_of(*entry);
    if (!states) continue;
    if (to_hex(states->fingerprint()) != fingerprint) {
      here += fmt::format("{}{} of {}", here.empty() ? "" : ", ", to_hex(states->fingerprint()), entry->name);
      continue;
    }
    return models_.acquire(entry->name, [out, use = std::move(use)](ApiResult<ModelLease> taken) {
      if (!taken) return out->respond(error_response(taken.error()));
      use(std::move(*taken));
    });
  }
  refuse(*out, 409, "other_states",
         fmt::format("No cache entries of fingerprint {} are here, but {}: workers share entries only with "
                     "the same model files, device, --precise and --cache-kv",
                     fingerprint, here.empty() ? "none at all" : here));
}

void StatePages::lookup(const std::string& body, std::shared_ptr<ResponseStream> out) {
  const auto question = [&]() -> Result<StatesQuestion> {
    TRY(const Json json, parse_json(body));
    return parse_question(json);
  }();
  if (!question) return refuse(*out, 400, "invalid_request", question.error().message);
  if (question->version != states_version())
    return refuse(*out, 409, "other_version",
                  fmt::format("This worker is Anabranch {}, and the one that asks is {}: only workers of the "
                              "same version share cache entries",
                              states_version(), dump_json(question->version)));
  with_model(
      to_hex(question->fingerprint), out, [this, out, keys = question->keys](ModelLease model) mutable {
        workers_.submit([out, model = std::move(model), keys = std::move(keys), post = post_]() mutable {
          const Json json = to_json(model->engine->shared_states()->kept(keys));
          model.reset();
          post([out = std::move(out), json] { out->respond(json_response(json)); });
        });
      });
}

void StatePages::record(const std::string& fingerprint, const std::string& name,
                        std::shared_ptr<ResponseStream> out) {
  const auto wanted = parse_record_name(name);
  if (!wanted)
    return refuse(*out, 400, "invalid_request",
                  "The path does not end with the name of a record of the prefix cache");
  if (*under_way_ >= kMostUnderWay)
    return refuse(*out, 503, "busy", fmt::format("{} records are being sent already", kMostUnderWay));
  // Counted until the connection is done with the answer.
  ++*under_way_;
  const std::shared_ptr<void> counted(nullptr, [under_way = under_way_](void*) { --*under_way; });
  out->on_client_left([counted] {});
  with_model(fingerprint, out, [this, out, wanted = *wanted](ModelLease model) mutable {
    workers_.submit([out, model = std::move(model), wanted, post = post_]() mutable {
      auto bytes = model->engine->shared_states()->record(wanted);
      model.reset();
      post([out = std::move(out), bytes = std::make_shared<Result<std::string>>(std::move(bytes))] {
        if (!*bytes) return refuse(*out, 404, "state_not_found", bytes->error().message);
        HttpResponse response;
        response.content_type = "application/octet-stream";
        response.body = std::move(**bytes);
        out->respond(std::move(response));
      });
    });
  });
}

Json transfer_json(const Engine& engine, const std::string& salt,
                   const std::vector<std::vector<int>>& prompts, const std::string& host) {
  const SharedStates* states = engine.shared_states();
  if (!states) return nullptr;
  Json keys = Json::array();
  for (const auto& prompt : prompts)
    keys.push_back(to_hex(prompt_key(prefix_keys(states->fingerprint(), salt, prompt), prompt)));
  const HostAndPort address = split(host);
  return {{"do_remote_prefill", true},
          {"do_remote_decode", false},
          {"remote_engine_id", to_hex(states->fingerprint())},
          {"remote_block_ids", std::move(keys)},
          {"remote_host", address.host},
          {"remote_port", address.port}};
}

}  // namespace anabranch::server
