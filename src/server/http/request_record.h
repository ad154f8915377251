// One request's name, status and time, for its answer's headers and the log.
#pragma once

#include <optional>
#include <random>
#include <utility>

#include "base/log.h"
#include "server/http/types.h"

namespace anabranch::server {

class RequestRecord {
 public:
  // began: when the request's first byte arrived, in monotonic seconds.
  explicit RequestRecord(double began) : began_(began) {}

  // Takes method, target and id from the request as far as it has been read; a new id if it brings none that
  // can be used. request: null if nothing of it has been read.
  void identify(const HttpRequest* request, std::mt19937_64& random);
  void answered(int status) { status_ = status; }
  void note(AnswerNote note) { note_ = std::move(note); }
  // Whether an answer has begun and is not logged yet.
  bool pending() const { return status_ != 0; }
  // Writes one line to the log. cut_off: the client did not get the whole answer.
  void log(bool cut_off);

  const RequestName& name() const { return name_; }

 private:
  void write(LogLevel level, std::string_view path, bool cut_off) const;

  RequestName name_;
  std::optional<AnswerNote> note_;
  double began_;
  int status_ = 0;  // of the answer; 0: none has begun
};

}  // namespace anabranch::server
