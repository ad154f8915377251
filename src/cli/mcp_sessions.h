// Offers the stored conversations as a tool to other programs.
#pragma once

#include "mcp/stdio_server.h"
#include "sessions/session_store.h"

namespace anabranch::cli {

// "sessions": lists, searches and reads the conversations in the store, which must outlive the tool.
mcp::ServedTool sessions_tool(SessionStore& store);

}  // namespace anabranch::cli
