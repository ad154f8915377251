// The content of /metrics in Prometheus' text format: counts and times observed here, and the engine's
// counters, which are read when /metrics is requested.
//
// Ownership: owned by the Api. The observing members are called on the I/O thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer_writer.h"
#include "server/api/model_pool.h"
#include "server/otlp/span_exporter.h"

namespace anabranch::server {

class Metrics {
 public:
  // spans: whose counts to tell; null: none.
  explicit Metrics(const SpanExporter* spans);
  ~Metrics();

  // An HTTP answer began. route: as route_label() names it.
  void responded(std::string_view route, int status);
  // Seconds from a request's arrival to the first tokens of one of its answers.
  void first_token(AnswerKind kind, double seconds);
  // Seconds between two deliveries of an answer's tokens.
  void token_gap(double seconds);
  // An answer ended. how: its finish_reason, "cancelled" or "error". Counts each answer of a request.
  void answered(AnswerKind kind, std::string_view how);
  void waited_in_queue(double seconds);
  // Tokens of a conversation's next prompt were read ahead; a prompt began with such tokens, and found them.
  void read_ahead(int tokens);
  void used_ahead(int tokens);
  // The mean time from one token to the next within an answer.
  void time_per_token(double seconds);

  // entries: from ModelPool::entries().
  std::string text(const std::vector<const ModelPool::Entry*>& entries) const;

 private:
  struct Series;
  std::unique_ptr<Series> series_;
  const SpanExporter* const spans_;
};

}  // namespace anabranch::server
