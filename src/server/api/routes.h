// The table of routes. Requests are matched against it; the answers 404 and 405, the page at "/", the labels
// of metrics and the test of openapi.json also use it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "server/api/answer_writer.h"
#include "server/http/api_keys.h"

namespace anabranch::server {

// Actions of POST requests on models (model_actions.h).
enum class ModelAction { load, unload, pull, ollama_pull };
// Actions on adapters (adapter_actions.h).
enum class AdapterAction { list, set_scales, load, unload };
// Actions on stored conversations (session_actions.h).
enum class SessionAction { list, create, import, export_text, branch, append, read, change, erase };
// Actions on conversations of OpenAI's Conversations API (conversations.h).
enum class ConversationAction { create, read, change, erase, list_items, add_items, read_item, erase_item };
// Everything else that requests read or do.
enum class Page {
  models,
  model,
  health,
  metrics,
  openapi,
  docs,
  welcome,
  response,
  input_items,
  forget,
  cancel_generate,
  ollama_version,
  ollama_models,
  ollama_loaded,
  ollama_model,
  llama_props,
  llama_slots,
  slot_action,
  tokenizer_info,
  router_model,
  router_server,
  mcp_servers,
  ask_mcp_servers,
  mcp_calls,
  states_lookup,
  state_record,
  web_status,
  web_file,
  web_icon
};
// The heading under which the page at "/" lists a route.
enum class Listed { no, openai, anthropic, ollama, llama };

struct Route {
  std::string_view method;  // GET includes HEAD
  // {id} stands for any non-empty text; if a "/" follows it, the text contains no "/". {item} may come at the
  // end.
  std::string_view path;
  std::variant<AnswerKind, ModelAction, AdapterAction, SessionAction, ConversationAction, Page> handler;
  Role role = Role::admin;  // role that a key needs, if the server requires API keys
  bool described = true;    // openapi.json has an operation with this method and path
  Listed listed = Listed::no;
};

std::span<const Route> routes();

struct RouteMatch {
  const Route* route = nullptr;  // null: no route has this path
  std::string id, item;          // the texts in place of {id} and {item}
};
// Whether a route takes this method.
bool takes_method(const Route& route, std::string_view method);
// path: decoded, without the query. If no route of this path takes the method, returns the path's first
// route.
RouteMatch find_route(std::string_view path, std::string_view method);

// The methods of the path's routes, in the format of the Allow header.
std::string allowed_methods(std::string_view path);
// For a path that is not a route: a similar path that the client may have meant; "": none is similar.
std::string near_route(std::string_view path);
// The route's label in metrics: its path; "other" for null.
std::string_view route_label(const Route* route);

}  // namespace anabranch::server
