// The adapters of models that are unloaded and loaded again.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "server/model_pool_fixture.h"

namespace anabranch::server {
namespace {

namespace fs = std::filesystem;
using ::anabranch::testing::TempDir;

class ModelAdapters : public ModelPoolTest {};

// "name*id" of the model's adapters, with "!" behind those that are not loaded.
std::string told(const ModelPool& pool, const std::string& model) {
  std::string out;
  for (const ServedAdapter& adapter : pool.adapters().of(model))
    out +=
        fmt::format("{}{}*{}{}", out.empty() ? "" : " ", adapter.name, adapter.id, adapter.loaded ? "" : "!");
  return out;
}

TEST_F(ModelAdapters, AnAdaptersNameMeansItsModelBeforeItIsLoaded) {
  fakes_.adapters = {{"b", {{"poet", "/poet"}, {"pirate", "/pirate"}}}};
  start(50);
  EXPECT_EQ(told(*pool_, "b"), "poet*0! pirate*1!");
  EXPECT_EQ(pool_->find("pirate"), "b");
  EXPECT_EQ(pool_->find_adapter("pirate:latest"), "pirate");
  EXPECT_EQ(pool_->find_adapter("b"), std::nullopt);
  EXPECT_EQ(pool_->find_adapter("gpt-4"), std::nullopt);
  EXPECT_EQ(use("pirate"), "b");
  EXPECT_EQ(told(*pool_, "b"), "poet*0 pirate*1");
}

TEST_F(ModelAdapters, AdaptersComeBackWithTheirModel) {
  fakes_.adapters = {{"b", {{"poet", "/poet"}}}};
  start(50);
  EXPECT_EQ(use("b"), "b");
  const auto engine = [&] { return entry("b").model->engine; };
  for (const char* path : {"/more", "/gone"})
    pool_->adapters().put("b", {path + 1, path, *engine()->load_adapter(path)});
  pool_->adapters().set_scales("b", {{1, 0.5f}});
  std::weak_ptr<const LoadedAdapter> before = pool_->adapters().of("b")[1].loaded;
  EXPECT_EQ(use("a"), "a");
  EXPECT_EQ(told(*pool_, "b"), "poet*0! more*1! gone*2!");
  EXPECT_TRUE(before.expired()) << "it goes with the engine to which it belongs";
  EXPECT_EQ(use("more"), "b");
  EXPECT_EQ(told(*pool_, "b"), "poet*0 more*1 gone*2");
  EXPECT_EQ(pool_->adapters().of("b")[1].scale, 0.5f);
  EXPECT_TRUE(pool_->adapters().remove("b", "more"));
  EXPECT_FALSE(pool_->adapters().remove("b", "more"));
  EXPECT_EQ(use("a"), "a");
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(told(*pool_, "b"), "poet*0 gone*2");
}

// The operator's adapter prevents loading, as a fault of the model does; a client's is left out.
TEST_F(ModelAdapters, AdaptersThatDoNotLoadAgain) {
  fakes_.adapters = {{"c", {{"ours", "/bad"}}}};
  start(50);
  for (const char* name : {"bad", "huge", "fine"}) pool_->adapters().put("b", theirs(name));
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(told(*pool_, "b"), "bad*0! huge*1! fine*2") << "without the ones that do not load";
  EXPECT_EQ(use("c"), "model_not_loaded");
  EXPECT_TRUE(pool_->adapters().remove("c", "ours"));
  EXPECT_EQ(use("c"), "c") << "an adapter that was unloaded is not loaded with the model";
  EXPECT_EQ(told(*pool_, "c"), "");
}

// A link that leads elsewhere may have come to lie there. The operator's adapters may lie anywhere.
TEST_F(ModelAdapters, AdaptersOfClientsAreLoadedAgainFromNamedDirectoriesOnly) {
  const TempDir outside;
  fakes_.adapters = {{"b", {{"ours", outside.path()}}}};
  start(50);
  for (const char* name : {"moved", "holds", "stays"}) pool_->adapters().put("b", theirs(name));
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(told(*pool_, "b"), "ours*0 moved*1 holds*2 stays*3");
  fs::remove(dir_.file("moved"));
  fs::create_directory_symlink(outside.path(), dir_.file("moved"));
  outside.write("x", "");
  fs::create_symlink(outside.file("x"), dir_.file("holds/adapter_model.safetensors"));
  EXPECT_EQ(use("a"), "a");
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(told(*pool_, "b"), "ours*0 moved*1! holds*2! stays*3");
}

// What a client replaced or unloaded stays so, also if the operator named it.
TEST_F(ModelAdapters, AReloadLoadsTheAdaptersThatThereAre) {
  fakes_.adapters = {{"b", {{"poet", "/poet"}, {"pirate", "/pirate"}}}};
  start(50);
  EXPECT_EQ(use("b"), "b");
  ServedAdapter other = theirs("other");
  other.name = "poet";
  pool_->adapters().put("b", other);
  EXPECT_TRUE(pool_->adapters().remove("b", "pirate"));
  EXPECT_EQ(use("a"), "a");
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(told(*pool_, "b"), "poet*0");
  EXPECT_EQ(pool_->adapters().of("b")[0].path, other.path);
  EXPECT_EQ(pool_->adapters().of("b")[0].loaded->path, other.path);
}

TEST_F(ModelAdapters, WhatIsUnloadedOrReplacedWhileItsModelLoadsStaysSo) {
  fakes_.adapters = {{"b", {{"gone", "/gone"}, {"new", "/old"}, {"stays", "/stays"}}}};
  start(50);
  {
    const std::lock_guard loading(fakes_.gate);
    ask("b");
    EXPECT_TRUE(io_.until([&] { return entry("b").state == ModelState::loading; }));
    EXPECT_TRUE(pool_->adapters().remove("b", "gone"));
    pool_->adapters().put("b", {"new", "/new"});
    pool_->adapters().set_scales("b", {{2, 0.5f}});
  }
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(told(*pool_, "b"), "new*1! stays*2") << "what was loaded is of another path than 'new'";
  EXPECT_EQ(pool_->adapters().of("b")[1].scale, 0.5f);
  EXPECT_EQ(pool_->find_adapter("gone"), std::nullopt);
}

}  // namespace
}  // namespace anabranch::server
