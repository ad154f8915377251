#include "hub/api.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/nearest.h"
#include "hub/retry.h"
#include "net/http_text.h"

namespace anabranch::hub {
namespace {

constexpr int kMostRedirects = 8;
constexpr int kLeastRate = 1024;  // bytes per second that an answer must deliver

// Escapes a part of an address: letters, digits and "-_.~" stay, the rest becomes %XX; "/" stays.
std::string escaped(std::string_view text) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || c == '/';
    out += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return out;
}

// Also escapes "/", because a revision is one part of an address.
std::string escaped_revision(const std::string& revision) {
  std::string out = escaped(revision);
  for (size_t at = 0; (at = out.find('/', at)) != out.npos;) out.replace(at, 1, "%2F");
  return out;
}

// The hub's error message, as " (message)"; "": it sent none.
std::string words_of(const net::Response& response) {
  constexpr size_t kMost = 300;
  std::string text = response.header("x-error-message").substr(0, kMost);
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text.empty() ? "" : " (" + text + ")";
}

}  // namespace

Error interrupted() {
  return make_error(ErrorKind::busy, "interrupted; the same command goes on from here");
}

std::string Api::file_url(const std::string& repo, const std::string& commit, const std::string& path) const {
  return fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, repo, commit, escaped(path));
}

std::string Api::token_for(const std::string& url) const {
  return net::origin_of(url) == net::origin_of(settings_.endpoint) ? settings_.token : "";
}

Result<net::Response> Api::once(HttpRequest request) {
  request.token = token_for(request.url);
  request.max_body = kMaxAnswerBytes;
  net::Transfer transfer = transfer_of(std::move(request), settings_);
  transfer.least_rate = kLeastRate;
  transfer.stop = watcher_.cancelled;
  net::Response response = http_.wait_for(std::move(transfer));
  if (response.end == net::End::stopped) return interrupted();
  return response;
}

Result<net::Response> Api::get(std::string url) {
  Retry retry;
  for (int redirects = 0;;) {
    TRY(auto response, once({.url = url}));
    if (response.problem.empty() && !response.location.empty() && ++redirects <= kMostRedirects) {
      TRY(url, redirect_target(url, response));
      continue;
    }
    if (!may_pass(response)) return response;
    const auto wait = retry.wait_after(response);
    if (!wait) return response;
    if (retry_after(response)) watcher_.note(fmt::format("the hub asks to wait {:.0f} s", *wait));
    for (const double end = now_seconds() + *wait; now_seconds() < end;) {
      if (watcher_.cancelled()) return interrupted();
      http_.run(50);
    }
  }
}

Result<Repository> Api::repository(const ModelName& name) {
  const std::string url = repository_url(name);
  TRY(const auto response, get(url));
  if (!response.good()) return explain(response, url, name, "");
  auto repository = parse_repository(response.body);
  if (!repository)
    return make_error(
        repository.error().kind,
        "the answer of {} about {} cannot be used: {}. Check HF_ENDPOINT, and whether the network "
        "demands a login first",
        settings_.endpoint, name.repo, repository.error().message);
  return repository;
}

std::string Api::repository_url(const ModelName& name) const {
  return fmt::format("{}/api/models/{}/revision/{}?blobs=true", settings_.endpoint, name.repo,
                     escaped_revision(name.revision));
}

std::optional<Repository> Api::find(const ModelName& name) {
  const auto response = once({.url = repository_url(name)});
  if (!response || !response->good()) return std::nullopt;
  auto repository = parse_repository(response->body);
  return repository ? std::optional(std::move(*repository)) : std::nullopt;
}

std::optional<std::string> Api::part_of_file(const ModelName& name, const std::string& commit,
                                             const std::string& path, uint64_t from, uint64_t to) {
  const std::string hub_url = file_url(name.repo, commit, path);
  std::string bytes, url = hub_url == part_url_ ? part_target_ : hub_url;
  const uint64_t most = to - from;
  for (int redirects = 0; redirects <= kMostRedirects; redirects++) {
    uint64_t before = from;  // bytes to skip if the server sends the whole file
    const auto take = [&](const net::Response& head, std::string_view more) {
      const bool part = head.status == 206;
      if (part && !head.header("content-range").starts_with(fmt::format("bytes {}-", from))) return false;
      if (!part) {
        const uint64_t passed = std::min<uint64_t>(before, more.size());
        more.remove_prefix(passed);
        before -= passed;
      }
      const bool too_much = more.size() > most - bytes.size();
      bytes.append(more.substr(0, most - bytes.size()));
      return part ? !too_much : bytes.size() < most;  // a server without ranges sends the whole file
    };
    const auto response = once({.url = url, .range = HttpRequest::Range{from, to}, .on_body = take});
    if (!response) return std::nullopt;
    if (response->problem.empty() && !response->location.empty()) {
      const auto target = redirect_target(url, *response);
      if (!target) return std::nullopt;
      url = *target;
      continue;
    }
    const bool taken = response->good() || (response->end == net::End::not_taken && bytes.size() == most);
    if (taken) part_url_ = hub_url, part_target_ = url;
    return taken && !bytes.empty() ? std::optional(std::move(bytes)) : std::nullopt;
  }
  return std::nullopt;
}

Result<std::string> Api::file_text(const ModelName& name, const std::string& commit,
                                   const std::string& path) {
  const std::string url = file_url(name.repo, commit, path);
  TRY(const auto response, get(url));
  if (!response.good()) return explain(response, url, name, path);
  return response.body;
}

Error Api::explain(const net::Response& response, const std::string& url, const ModelName& name,
                   const std::string& file) {
  const std::string host = net::origin_of(url), what = file.empty() ? name.repo : file + " of " + name.repo;
  if (response.end == net::End::untrusted)
    return make_error(
        ErrorKind::io,
        "the certificate of {} is not trusted: {}. Behind a proxy that opens connections, name its "
        "certificate with SSL_CERT_FILE",
        host, response.problem);
  if (response.status == 0)
    return make_error(
        ErrorKind::io,
        "cannot reach {} for {}: {}. Check the connection and https_proxy, or name a mirror with "
        "HF_ENDPOINT; stored models work without (HF_HUB_OFFLINE=1)",
        host, what, response.problem);
  if (response.end == net::End::not_taken)
    return make_error(ErrorKind::exhausted, "{} sends an answer about {} that cannot be used: {}", host, what,
                      response.problem);
  if (!response.problem.empty())
    return make_error(ErrorKind::io, "the connection to {} broke again and again ({}): {}. Try again later",
                      host, what, response.problem);
  if (response.status == 401 || response.status == 403) return no_access(name, response);
  if (response.status == 404 && file.empty()) return missing(name, response);
  if (response.status == 404)
    return make_error(ErrorKind::not_found, "{} has no {} any more{}: pull it again", name.repo, file,
                      words_of(response));
  if (response.status == 429)
    return make_error(
        ErrorKind::busy, "{} allows no more requests at present{}: try again in {}", host, words_of(response),
        retry_after(response) ? fmt::format("{:.0f} s", *retry_after(response)) : "some minutes");
  if (!response.location.empty())
    return make_error(ErrorKind::invalid, "{} redirects in circles ({})", host, what);
  return make_error(ErrorKind::io, "{} answers HTTP {} for {}{}: try again later", host, response.status,
                    what, words_of(response));
}

Error Api::no_access(const ModelName& name, const net::Response& response) const {
  const std::string code = response.header("x-error-code");
  const std::string page = settings_.endpoint + "/" + name.repo;
  const std::string how =
      fmt::format("make a token on {}/settings/tokens, and set HF_TOKEN to it or write it to {}",
                  settings_.endpoint, settings_.token_path);
  if (code == "GatedRepo" && settings_.token.empty())
    return make_error(ErrorKind::invalid, "{} is gated: accept its conditions on {}, {}", name.repo, page,
                      how);
  if (code == "GatedRepo")
    return make_error(
        ErrorKind::invalid,
        "{} is gated, and the account of your token has no access: accept its conditions on {}{}", name.repo,
        page, words_of(response));
  if (settings_.token.empty())
    return make_error(ErrorKind::not_found, "{} has no model {}, or it is private{}. If it is private, {}",
                      settings_.endpoint, name.repo, words_of(response), how);
  return make_error(
      ErrorKind::invalid,
      "{} refuses {} with your token (HTTP {}){}: check the name; {}, if the token has expired or "
      "may not read this",
      settings_.endpoint, name.repo, response.status, words_of(response), how);
}

Error Api::missing(const ModelName& name, const net::Response& response) {
  if (response.header("x-error-code") == "RevisionNotFound")
    return make_error(ErrorKind::not_found, "{} has no revision {}: give a branch, a tag or a commit",
                      name.repo, name.revision);
  return make_error(ErrorKind::not_found, "{} has no model {}{}", settings_.endpoint, name.repo,
                    similar(name.repo));
}

// "; did you mean X?", from the organisation's models or otherwise from a search; "": no name is similar.
std::string Api::similar(const std::string& repo) {
  constexpr size_t kMost = 1000;
  const size_t slash = repo.find('/');
  const std::string org = repo.substr(0, slash), name = repo.substr(slash + 1);
  for (const std::string& query : {"author=" + escaped(org), "search=" + escaped(name)}) {
    const auto answer =
        once({.url = fmt::format("{}/api/models?{}&limit={}", settings_.endpoint, query, kMost)});
    if (!answer || !answer->good()) continue;
    const auto names = parse_model_list(answer->body, kMost);
    if (const auto text = did_you_mean(repo, names); !text.empty()) return text;
    if (query.starts_with("search=") && !names.empty()) return "; did you mean " + names.front() + "?";
  }
  return "";
}

}  // namespace anabranch::hub
