// The collector that traces are sent to.
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace anabranch::server {

// The address and the headers may hold secrets: messages name only the origin.
struct OtlpEndpoint {
  std::string url;  // empty: none
  std::map<std::string, std::string> headers;
};

// url: the collector's address, to which "/v1/traces" is added if it does not end with it. headers: as
// OTEL_EXPORTER_OTLP_HEADERS has them, "name=value,name=value" with percent-encoded values. Errors: invalid.
Result<OtlpEndpoint> otlp_endpoint(std::string url, const std::string& headers);

}  // namespace anabranch::server
