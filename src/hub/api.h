// Requests to the hub, and explanations of its errors.
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

// How a long operation reports to its caller and is cancelled.
struct Watcher {
  std::function<void(const std::string& sentence)> note;  // something that a person should know
  std::function<bool()> cancelled;                        // called several times per second
};

// The error of an operation that was cancelled; its kind is `busy`.
Error interrupted();

class Api {
 public:
  Api(const Settings& settings, const Watcher& watcher) : settings_(settings), watcher_(watcher) {}

  // Errors say why the repository is not available, and what to do: it is missing, gated or private, the hub
  // cannot be reached, its answer is unusable.
  Result<Repository> repository(const ModelName& name);

  // Like repository(), but without retries; none if the repository is unavailable for whatever reason.
  std::optional<Repository> find(const ModelName& name);

  // Bytes [from, to) of a file, as far as it has them, without retries. None: they are unavailable, for
  // instance because the server does not support ranges.
  std::optional<std::string> part_of_file(const ModelName& name, const std::string& commit,
                                          const std::string& path, uint64_t from, uint64_t to);

  // The content of a small file of the repository.
  Result<std::string> file_text(const ModelName& name, const std::string& commit, const std::string& path);

  std::string file_url(const std::string& repo, const std::string& commit, const std::string& path) const;
  // The token for a request to this address. Only the hub itself gets it.
  std::string token_for(const std::string& url) const;
  // The meaning of a failed response. file: the requested file; "": the repository was requested.
  Error explain(const net::Response& response, const std::string& url, const ModelName& name,
                const std::string& file);

 private:
  // A GET to the hub, with redirects and retries. The response may be an error response.
  Result<net::Response> get(std::string url);
  Result<net::Response> once(HttpRequest request);
  std::string repository_url(const ModelName& name) const;
  std::string similar(const std::string& repo);
  Error missing(const ModelName& name, const net::Response& response);
  Error no_access(const ModelName& name, const net::Response& response) const;

  const Settings& settings_;
  const Watcher& watcher_;
  net::Transfers http_;
  std::string part_url_,
      part_target_;  // last file read in part: the hub's address and its redirect target
};

}  // namespace anabranch::hub
