// Questions to the hub, and what its refusals mean.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "hub/http.h"
#include "hub/model_name.h"
#include "hub/repository.h"
#include "hub/settings.h"

namespace anabranch::hub {

// How a long operation talks to who asked for it.
struct Watcher {
  std::function<void(const std::string& sentence)> note;  // something that a person should know
  std::function<bool()> cancelled;                        // asked several times a second
};

// What an operation that was cancelled returns; its kind is `busy`.
Error interrupted();

class Api {
 public:
  Api(const Settings& settings, HttpClient& http, const Watcher& watcher)
      : settings_(settings), http_(http), watcher_(watcher) {}

  // Errors say why there is none, and what to do: it is missing, gated or private, the hub cannot be reached,
  // its answer cannot be used.
  Result<Repository> repository(const ModelName& name);

  // The same, asked once: none if it cannot be had, for whatever reason.
  std::optional<Repository> find(const ModelName& name);

  // Bytes [from, to) of a file, as many of them as it has, asked once. None: they cannot be had, as from a
  // server that knows no ranges.
  std::optional<std::string> part_of_file(const ModelName& name, const std::string& commit,
                                          const std::string& path, uint64_t from, uint64_t to);

  // A small file of the repository.
  Result<std::string> file_text(const ModelName& name, const std::string& commit, const std::string& path);

  std::string file_url(const std::string& repo, const std::string& commit, const std::string& path) const;
  // The token for a request to this address: only the hub itself gets it.
  std::string token_for(const std::string& url) const;
  // What a response that is not good means. file: that was asked for; "": the repository.
  Error explain(const HttpResponse& response, const std::string& url, const ModelName& name,
                const std::string& file);

 private:
  // A GET of the hub's own, with redirects and retries. The response may be an error's.
  Result<HttpResponse> get(std::string url);
  Result<HttpResponse> once(HttpRequest request);
  std::string repository_url(const ModelName& name) const;
  std::string similar(const std::string& repo);
  Error missing(const ModelName& name, const HttpResponse& response);
  Error no_access(const ModelName& name, const HttpResponse& response) const;

  const Settings& settings_;
  HttpClient& http_;
  const Watcher& watcher_;
  std::string part_url_,
      part_target_;  // of the file that a part was asked of last: the hub's, and where it led
};

}  // namespace anabranch::hub
