#include "server/api/adapter_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "server/api/control_characters.h"

namespace anabranch::server {
namespace {

auto find_named(auto& adapters, const std::string& name) {
  return std::ranges::find(adapters, name, &ServedAdapter::name);
}

// Files decide how much memory this takes, and jobs of a worker must not throw.
Result<std::shared_ptr<const LoadedAdapter>> load_safely(Engine& engine, const std::string& path) {
  try {
    return engine.load_adapter(path);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorKind::exhausted, "{}: there is not enough memory to load it", path);
  } catch (const std::exception& e) {
    return make_error(ErrorKind::internal, "{}: loading it failed: {}", path, e.what());
  }
}

}  // namespace

std::string fault_of_adapter_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kMostAdapterName)
    return fmt::format("has {} bytes, but may have {}", name.size(), kMostAdapterName);
  if (has_control_characters(name)) return "has control characters";
  // Requests that ask for these mean the server's main model, or the name without the tag.
  for (const std::string_view usual : {"default", "main", "default_model"})
    if (name == usual) return "means the server's own model";
  return name.ends_with(":latest") ? "ends with ':latest', which is no part of a name" : "";
}

Result<std::vector<ServedAdapter>> load_adapters(Engine& engine, const std::vector<NamedAdapter>& adapters) {
  std::vector<ServedAdapter> loaded;
  for (const auto& [name, path] : adapters) {
    auto adapter = load_safely(engine, path);
    if (!adapter) return make_error(adapter.error().kind, "adapter '{}': {}", name, adapter.error().message);
    loaded.push_back({name, path, std::move(*adapter)});
  }
  return loaded;
}

AdapterRegistry::AdapterRegistry(const std::map<std::string, std::vector<NamedAdapter>>& adapters) {
  for (const auto& [model, its] : adapters)
    for (const auto& [name, path] : its) put(model, {name, path});
}

std::map<std::string, std::string> AdapterRegistry::owners() const {
  std::map<std::string, std::string> models;
  for (const auto& [model, of] : of_)
    for (const ServedAdapter& adapter : of.adapters) models[adapter.name] = model;
  return models;
}

std::optional<std::string> AdapterRegistry::model_of(const std::string& adapter) const {
  for (const auto& [model, of] : of_)
    if (find_named(of.adapters, adapter) != of.adapters.end()) return model;
  return std::nullopt;
}

const std::vector<ServedAdapter>& AdapterRegistry::of(const std::string& model) const {
  static const std::vector<ServedAdapter> none;
  const auto found = of_.find(model);
  return found == of_.end() ? none : found->second.adapters;
}

void AdapterRegistry::put(const std::string& model, ServedAdapter adapter) {
  Of& of = of_[model];
  if (const auto old = find_named(of.adapters, adapter.name); old != of.adapters.end()) {
    adapter.id = old->id;
    adapter.scale = old->scale;
    *old = std::move(adapter);
    return;
  }
  adapter.id = of.next_id++;
  of.adapters.push_back(std::move(adapter));
}

bool AdapterRegistry::remove(const std::string& model, const std::string& adapter) {
  auto& adapters = of_[model].adapters;
  const auto found = find_named(adapters, adapter);
  if (found == adapters.end()) return false;
  adapters.erase(found);
  return true;
}

void AdapterRegistry::set_scales(const std::string& model, const std::map<int, float>& by_id) {
  for (ServedAdapter& adapter : of_[model].adapters) {
    const auto wanted = by_id.find(adapter.id);
    adapter.scale = wanted == by_id.end() ? 0 : wanted->second;
  }
}

void AdapterRegistry::restore(const std::string& model, const std::vector<ServedAdapter>& loaded) {
  for (ServedAdapter& known : of_[model].adapters)
    if (const auto found = find_named(loaded, known.name); found != loaded.end() && found->path == known.path)
      known.loaded = found->loaded;
}

std::vector<std::shared_ptr<const LoadedAdapter>> AdapterRegistry::release(const std::string& model) {
  std::vector<std::shared_ptr<const LoadedAdapter>> loaded;
  for (ServedAdapter& adapter : of_[model].adapters) loaded.push_back(std::exchange(adapter.loaded, nullptr));
  return loaded;
}

}  // namespace anabranch::server
