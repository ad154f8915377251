// Sends spans to a collector (OTLP over HTTP, as JSON), in batches.
//
// Ownership: owns one thread, which sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "server/otlp/endpoint.h"
#include "server/otlp/span.h"

namespace anabranch::server {

class SpanExporter {
 public:
  struct Limits {
    size_t waiting = 2048;    // spans; further ones are dropped
    size_t batch = 512;       // spans in one request
    double delay_s = 1;       // that a span waits for others
    double request_s = 5;     // for a request to the collector
    double last_words_s = 1;  // for what waits when the exporter is destroyed
  };
  struct Counts {
    uint64_t sent = 0, dropped = 0;
  };

  // version: the version of this program.
  SpanExporter(OtlpEndpoint endpoint, std::string version) : SpanExporter(endpoint, version, Limits()) {}
  SpanExporter(OtlpEndpoint endpoint, std::string version, const Limits& limits);
  // Sends what waits, for at most last_words_s.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // From any thread: queues a span, and gives it the ids that it lacks. Never waits for the collector.
  void add(Span span);
  // From any thread. A span is dropped if the queue is full, or if the collector does not take its batch.
  Counts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anabranch::server
