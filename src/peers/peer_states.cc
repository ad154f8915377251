#include "peers/peer_states.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "cache/disk_files.h"
#include "net/http_client.h"
#include "net/http_text.h"
#include "peers/lookup.h"

namespace anabranch {
namespace {

constexpr double kRestAfterFailure = 5, kRestAfterRefusal = 30;  // seconds
constexpr double kLookupShare = 0.5;                             // of the time left
constexpr size_t kMaxLookupBytes = 1 << 20;
constexpr int kUnavailable = 503;

// The message in the body of an error in our API's format; otherwise the beginning of the body.
std::string message_of(const std::string& body) {
  const auto json = parse_json(body);
  if (json && json->is_object() && json->contains("error")) {
    const std::string message = string_at((*json)["error"], "message");
    if (!message.empty()) return message;
  }
  return body.substr(0, 200);
}

}  // namespace

Result<std::string> peer_origin(const std::string& url) {
  const std::string origin = net::origin_with_port(url);
  const bool http = origin.starts_with("http://") || origin.starts_with("https://");
  const size_t path = url.find('/', url.find("//") == url.npos ? 0 : url.find("//") + 2);
  if (!http || (path != url.npos && path + 1 != url.size()) || url.find_first_of("?#@") != url.npos)
    return make_error(ErrorKind::invalid, "'{}' is no address of a worker, such as http://10.0.0.5:11436",
                      url);
  return origin;
}

struct PeerStates::Peer {
  std::string origin;  // "http://host:port"
  std::mutex mutex;    // guards the members below
  double rests_until = 0;
  std::string last_refusal;  // logged already

  std::string host() const { return origin.substr(origin.find("//") + 2); }
  bool rests() {
    const std::lock_guard lock(mutex);
    return now_seconds() < rests_until;
  }
};

// The longest state of the prompt that a peer has; length 0: none.
struct PeerStates::Offer {
  Peer* peer = nullptr;
  int length = 0;
  std::optional<RecordHead> point;  // none: whole blocks suffice
};

PeerStates::PeerStates(PeerOptions options, const Fingerprint& fingerprint, uint64_t most_bytes)
    : options_(std::move(options)),
      fingerprint_(fingerprint),
      most_bytes_(most_bytes),
      http_(std::make_unique<net::HttpClient>()) {
  for (const std::string& url : options_.urls) {
    auto peer = std::make_unique<Peer>();
    peer->origin = net::origin_with_port(url);
    peers_.push_back(std::move(peer));
  }
}
PeerStates::~PeerStates() = default;

bool PeerStates::knows(const std::string& host) const {
  return std::ranges::any_of(peers_, [&](const auto& peer) { return peer->host() == host; });
}

PeerStates::Stats PeerStates::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// Sends a request within the time left.
Result<net::Response> PeerStates::ask(const WantedStates& wanted, net::Transfer transfer, size_t most) {
  const double left = wanted.until - now_seconds();
  if (left <= 0) return make_error(ErrorKind::exhausted, "no time is left");
  transfer.seconds = std::min(transfer.seconds, left);
  transfer.stop = wanted.stop;
  if (!options_.api_key.empty()) transfer.headers["Authorization"] = "Bearer " + options_.api_key;
  transfer.on_body = [most](net::Response& so_far, std::string_view bytes) {
    if (so_far.body.empty()) {
      const std::string length = so_far.header("content-length");
      const uint64_t told = length.size() < 16 ? std::strtoull(length.c_str(), nullptr, 10) : 0;
      if (told <= most) so_far.body.reserve(told);
    }
    if (bytes.size() > most - so_far.body.size()) return false;
    so_far.body += bytes;
    return true;
  };
  TRY(auto response, http_->run(std::move(transfer)).checked());
  if (response.end == net::End::not_taken)
    return make_error(ErrorKind::invalid, "its answer has more than {} bytes", most);
  return response;
}

// Handles a refusal: the peer has another version, model or precision, rejects the key, or has no states at
// all. The same reason is not logged twice in a row.
void PeerStates::refused(Peer& peer, int status, const std::string& body) {
  const std::string message = message_of(body);
  const std::lock_guard lock(peer.mutex);
  if (status == kUnavailable) return;  // busy
  peer.rests_until = now_seconds() + kRestAfterRefusal;
  if (message == peer.last_refusal) return;
  peer.last_refusal = message;
  log_warning("{} gives no cache entries (HTTP {}): {}", peer.origin, status, message);
}

void PeerStates::failed(Peer& peer, const Error& error) {
  if (error.kind == ErrorKind::busy) return;  // the request was cancelled
  {
    const std::lock_guard lock(peer.mutex);
    peer.rests_until = now_seconds() + kRestAfterFailure;
  }
  log_warning("no cache entries from {}, which is not asked again for {:g} seconds: {}", peer.origin,
              kRestAfterFailure, error.message);
  const std::lock_guard lock(mutex_);
  stats_.failed++;
}

void PeerStates::lookup(const WantedStates& wanted, Offer& offer) {
  net::Transfer transfer{.url = offer.peer->origin + "/v1/states/lookup", .method = "POST"};
  transfer.headers["Content-Type"] = "application/json";
  transfer.body = dump_json(
      to_json(StatesQuestion{states_version(), fingerprint_, {wanted.keys.begin(), wanted.keys.end()}}));
  transfer.seconds = kLookupShare * (wanted.until - now_seconds());
  const auto response = ask(wanted, std::move(transfer), kMaxLookupBytes);
  if (!response) return failed(*offer.peer, response.error());
  if (response->status != 200) return refused(*offer.peer, response->status, response->body);
  const auto parsed = [&]() -> Result<KeptPrefix> {
    TRY(const Json json, parse_json(response->body));
    return parse_kept(json, static_cast<uint32_t>(wanted.keys.size() - 1));
  }();
  if (!parsed) return failed(*offer.peer, parsed.error());

  const int most = static_cast<int>(wanted.tokens.size()) - 1;
  if (wanted.any_token) offer.length = std::min(static_cast<int>(parsed->blocks) * kBlockTokens, most);
  for (const KeptPoint& kept : parsed->points) {
    const int length = static_cast<int>(kept.length);
    if (length > most || length <= offer.length) continue;
    const size_t blocks = kept.length / kBlockTokens;
    const auto tail = wanted.tokens.first(kept.length).subspan(blocks * kBlockTokens);
    const PrefixKey key = next_key(wanted.keys[blocks], tail);
    if (mark_of(key) != kept.mark) continue;
    offer.length = length;
    offer.point =
        RecordHead{RecordKind::snapshot, key, wanted.keys[blocks], kept.length, {tail.begin(), tail.end()}};
  }
}

Result<StoredRecord> PeerStates::record(const WantedStates& wanted, const Peer& peer,
                                        const RecordHead& head) {
  const DiskRecord name = disk_record(fingerprint_, head);
  net::Transfer transfer{
      .url = fmt::format("{}/v1/states/{}/{}", peer.origin, to_hex(fingerprint_), record_name(name))};
  TRY(auto response, ask(wanted, std::move(transfer), most_bytes_));
  const auto body = std::make_shared<std::string>(std::move(response.body));
  if (response.status != 200)
    return make_error(ErrorKind::not_found, "an entry of {} tokens (HTTP {}): {}", head.length,
                      response.status, message_of(*body));
  TRY(auto stored, parse_record(std::as_bytes(std::span(*body)), fingerprint_, body));
  if (stored.head != head)
    return make_error(ErrorKind::invalid, "it sent another record than {}", record_name(name));
  return stored;
}

bool PeerStates::fetch(const WantedStates& wanted, const Offer& offer, FetchedStates& out) {
  std::vector<RecordHead> heads;
  for (int b = wanted.blocks_here; b < offer.length / kBlockTokens; b++) {
    const auto at = static_cast<size_t>(b);
    const auto block = wanted.tokens.subspan(at * kBlockTokens, kBlockTokens);
    heads.push_back({RecordKind::block,
                     wanted.keys[at + 1],
                     wanted.keys[at],
                     static_cast<uint32_t>((at + 1) * kBlockTokens),
                     {block.begin(), block.end()}});
  }
  if (offer.point) heads.push_back(*offer.point);
  for (const RecordHead& head : heads) {
    auto stored = record(wanted, *offer.peer, head);
    if (!stored) {
      // An eviction in the meantime is not the peer's fault.
      if (stored.error().kind != ErrorKind::not_found) failed(*offer.peer, stored.error());
      return false;
    }
    for (const StoredSection& section : stored->sections) out.bytes += section.bytes.size();
    out.records.push_back(std::move(*stored));
  }
  return true;
}

std::optional<FetchedStates> PeerStates::fetch(const WantedStates& wanted) {
  std::vector<Offer> offers;
  for (const auto& peer : peers_)
    if ((wanted.host.empty() || peer->host() == wanted.host) && !peer->rests())
      offers.push_back({peer.get(), 0, std::nullopt});
  if (offers.empty()) return std::nullopt;
  std::vector<std::future<void>> asked;
  for (size_t i = 1; i < offers.size(); i++)
    asked.push_back(
        std::async(std::launch::async, [this, &wanted, &offer = offers[i]] { lookup(wanted, offer); }));
  lookup(wanted, offers[0]);
  for (auto& answer : asked) answer.get();
  const Offer& best = *std::ranges::max_element(offers, {}, &Offer::length);
  FetchedStates out{best.peer->origin, best.length, 0, {}};
  const bool worth_it = best.length - wanted.length_here >= kLeastGain;
  const bool done = worth_it && fetch(wanted, best, out);
  const std::lock_guard lock(mutex_);
  stats_.lookups++;
  if (!done) return std::nullopt;
  stats_.fetched++;
  stats_.tokens += static_cast<uint64_t>(best.length - wanted.length_here);
  stats_.bytes += out.bytes;
  return out;
}

}  // namespace anabranch
