// Which running request another one waits for, because it is about to keep their common prefix.
#include "engine/snapshot_keeper.h"

#include "engine/crowd.h"
#include "engine/loader.h"

namespace anabranch::testing {
namespace {

class PromiseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.model_path = model_files_.path();
    options_.device.threads = 1;
    options_.cache.enabled = true;
    const auto load = [&](std::shared_ptr<Device> device) {
      return load_model(model_files_.path(), std::move(device));
    };
    ASSERT_TRUE(model_.load(options_, load).ok());
    keeper_ = std::make_unique<SnapshotKeeper>(SnapshotKeeper::open(options_, model_, 1 << 28).value());
  }

  // One that runs and will keep its state after 100 tokens and at its prompt's end.
  Sequence& add_running(RequestId id, const std::function<void(Request&)>& change = {}) {
    auto sequence = sequence_of(id, 300, change);
    sequence->state.emplace(model_.model().make_state());
    sequence->keep_at = {100, 299};
    return *(running_[id] = std::move(sequence));
  }
  static std::unique_ptr<Sequence> sequence_of(RequestId id, int length,
                                               const std::function<void(Request&)>& change = {}) {
    Request request = request_of(length, 10);
    if (change) change(request);
    return std::make_unique<Sequence>(id, std::move(request), [](const Event&) {});
  }
  // The length that is promised to a prompt with the same first tokens; 0: none.
  int promised(const std::function<void(Request&)>& change = {}, int length = 400) {
    const auto promise = keeper_->promise_of(*sequence_of(9, length, change), running_);
    return promise ? promise->length : 0;
  }

  TinyModel model_files_{"qwen35_flat_tied"};
  EngineOptions options_;
  EngineModel model_;
  std::unique_ptr<SnapshotKeeper> keeper_;
  Sequences running_;
};

TEST_F(PromiseTest, IsTheLongestCommonPrefixThatWillBeKept) {
  EXPECT_EQ(promised(), 0);
  add_running(1);
  EXPECT_EQ(promised(), 299);
  EXPECT_EQ(promised({}, 300), 299);
  EXPECT_EQ(promised({}, 299), 100) << "of the same prompt the last token is applied anew";
  EXPECT_EQ(promised([](Request& r) { r.prompt[200]++; }), 100);
  EXPECT_EQ(promised([](Request& r) { r.prompt[99]++; }), 0);
}

TEST_F(PromiseTest, AShorterPrefixOfAnotherRequestIsNoBetter) {
  add_running(1);
  const auto parts_at_150 = [](Request& r) { r.prompt[150]++; };
  add_running(2, parts_at_150).keep_at = {100, 310};
  EXPECT_EQ(promised(), 299);
}

TEST_F(PromiseTest, IsForThoseOnlyWhoMayUseTheState) {
  add_running(1, [](Request& r) { r.cache_salt = "tenant"; });
  EXPECT_EQ(promised(), 0) << "a state under another salt is not found";
  EXPECT_EQ(promised([](Request& r) { r.cache_salt = "tenant"; }), 299);
  EXPECT_EQ(promised([](Request& r) {
              r.cache_salt = "tenant";
              r.cache = false;
            }),
            0);
}

TEST_F(PromiseTest, NobodyWaitsForARequestThatMattersLessOrDoesNotRun) {
  Sequence& other = add_running(1, [](Request& r) { r.priority = 2; });
  EXPECT_EQ(promised([](Request& r) { r.priority = 1; }), 0);
  EXPECT_EQ(promised([](Request& r) { r.priority = 2; }), 299);
  EXPECT_EQ(promised([](Request& r) { r.priority = 3; }), 299);
  other.state.reset();
  EXPECT_EQ(promised([](Request& r) { r.priority = 3; }), 0);
}

}  // namespace
}  // namespace anabranch::testing
