// Reads the beginning of a conversation's next prompt while no request waits. Templates of thinking models
// drop earlier thoughts, so the next prompt differs from what was sampled where the last answer began, and a
// recurrent state behind that point cannot be reused. After an answer, the beginning of the next prompt is
// read in the background, and its state is cached as that of any prompt. A request that comes meanwhile
// cancels this; the engine then caches the state of the part that was read. Tokens of answers never depend on
// it.
//
// Used on the I/O thread only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "server/api/conversation_keeper.h"
#include "server/api/metrics.h"
#include "server/api/model_pool.h"

namespace anabranch::server {

// A turn that has ended.
struct EndedTurn {
  std::string model;                           // its name
  std::shared_ptr<const ChatRequest> request;  // see Prepared::asked
  Json answer;                                 // as the client is likely to send it back
  std::vector<int> tokens;                     // prompt and answer, as they were sampled
  std::string sender;                          // for the pools
  // If the conversation is stored: the cached states that are read or made are deleted with it.
  std::shared_ptr<ConversationKeeper> keeper;
  // The request's adapters. A turn keeps none of them loaded.
  struct Applied {
    std::weak_ptr<const LoadedAdapter> adapter;
    float scale;
  };
  std::vector<Applied> adapters = {};
};

class ReadAhead {
 public:
  // busy: whether an answer is under way. note: notes the names of cached states of the turn's conversation.
  // All must outlive it.
  ReadAhead(ModelPool& models, WorkerPool& workers, Post post, After after, Metrics& metrics,
            std::function<bool()> busy,
            std::function<void(const EndedTurn&, const std::vector<std::string>& states)> note);

  // The turn's conversation is read next. Of other conversations the newest few are kept for later.
  void add(EndedTurn turn);
  // To be called when an answer has ended: reads what waits, if nobody sends a request at once.
  void look();
  // To be called before a request's prompt goes to the engine. Ends what is being read. Returns how many of
  // the prompt's tokens were read ahead. asked: see Prepared; may be null.
  struct Found {
    int length = 0;  // of the prefix
    int read = 0;    // tokens of it that were not cached before
  };
  Found give_way(const std::string& model, std::span<const int> prompt, const ChatRequest* asked);
  // Ends what is being read, and waits until the engine has let go of it. To be called once, at the end.
  void stop();

 private:
  struct Reading {
    explicit Reading(EndedTurn ended) : turn(std::move(ended)) {}
    const EndedTurn turn;
    std::optional<Prepared> prepared;
    std::weak_ptr<Engine> engine;
    RequestId request = 0;             // 0: not submitted
    size_t known = 0;                  // tokens of the prompt that were sampled or read before
    std::atomic<bool> dropped{false};  // the conversation has its next turn, or its state cannot be kept
    std::mutex mutex;                  // guards what follows
    std::condition_variable changed;
    bool ended = false;  // the engine has let go of the request
    std::vector<std::string> states;
  };
  struct Done {
    std::string model;
    std::vector<int> prompt;
    int read;
  };

  void start();
  void prepare(ModelLease model);
  void submit(const ModelLease& model);
  void receive(const std::shared_ptr<Reading>& reading, const Event& event);
  void wait_again(const std::shared_ptr<Reading>& reading);
  void cancel();
  static bool is_worth_reading(Reading& reading);

  ModelPool& models_;
  WorkerPool& workers_;
  const Post post_;
  const After after_;
  Metrics& metrics_;
  const std::function<bool()> busy_;
  const std::function<void(const EndedTurn&, const std::vector<std::string>&)> note_;
  std::shared_ptr<Reading> current_;              // null: nothing is prepared or read
  std::deque<std::shared_ptr<Reading>> waiting_;  // newest first
  std::deque<Done> done_;                         // newest first
  bool looks_ = false;                            // a timer runs
  const std::shared_ptr<ReadAhead*> alive_ = std::make_shared<ReadAhead*>(this);
};

}  // namespace anabranch::server
