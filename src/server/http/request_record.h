// One request's name, client, status and time, for its answer's headers and the logs.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "server/http/admission.h"
#include "server/http/types.h"

namespace anabranch::server {

// 1 to 128 letters, digits and characters of -_.:+=@, which are safe in a header, a log or a file name.
bool is_request_id(std::string_view id);

class RequestRecord {
 public:
  // began: when the request's first byte arrived, in monotonic seconds.
  explicit RequestRecord(double began) : began_(began) {}

  // Takes method, target and id from the request as far as it has been read; makes a new id if the request
  // has no valid one. request: null if nothing of it has been read.
  void identify(const HttpRequest* request, std::mt19937_64& random);
  void set_client(std::string address, std::string key) {
    address_ = std::move(address);
    key_ = std::move(key);
  }
  // Call it when the request's first byte has arrived.
  void begin() { open_ = true; }
  // Whether it has begun and end() has not been called.
  bool is_open() const { return open_; }
  void answered(int status) { status_ = status; }
  void note(std::shared_ptr<const AnswerNote> note) { note_ = std::move(note); }
  // Writes one line to the log, if an answer has begun. cut_off: the client did not get the whole answer.
  void log(bool cut_off) const;
  EndedRequest end(bool cut_off);

  const RequestName& name() const { return name_; }
  const std::string& address() const { return address_; }
  std::string sender() const { return sender_of(key_, address_); }

 private:
  void write(LogLevel level, std::string_view path, bool cut_off) const;
  std::string_view path() const;

  RequestName name_;
  std::string address_, key_;
  std::shared_ptr<const AnswerNote> note_;
  std::optional<TraceParent> parent_;
  double began_;
  bool open_ = false;
  int status_ = 0;  // of the answer; 0: none has begun
};

}  // namespace anabranch::server
