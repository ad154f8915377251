// A server with a fake engine behind it, on a port of its own.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "server/api/server.h"
#include "server/fake_engine.h"
#include "server/test_client.h"

namespace anabranch::server {

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { start({}); }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(sessions_);
  }
  // In place of the one that runs.
  void start(ServerOptions options) { start(served_by(engine_), std::move(options)); }
  void start(ServerModels models, ServerOptions options) {
    server_.reset();
    options.port = 0;
    if (options.sessions.directory.empty()) options.sessions.directory = sessions_;
    auto server = Server::start(std::move(models), options);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    port_ = server_->port();
  }
  HttpAnswer post(const std::string& path, const std::string& body) { return ask(port_, "POST", path, body); }

  const std::string sessions_ =
      std::filesystem::temp_directory_path() / ("server_sessions_" + std::to_string(::getpid()));
  FakeEngine engine_;
  std::unique_ptr<Server> server_;
  uint16_t port_ = 0;
};

}  // namespace anabranch::server
