// The LoRA adapters that a server's models have, by their names. Requests choose them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace anabranch::server {

inline constexpr size_t kMostAdapters = 64;       // of one model
inline constexpr size_t kMostAdapterName = 200;   // bytes
inline constexpr double kMostAdapterScale = 1e4;  // largest magnitude of an adapter's scale in a request

// A name that the operator gives an adapter, and its directory or file.
struct NamedAdapter {
  std::string name, path;
};

struct ServedAdapter {
  std::string name, path;
  std::shared_ptr<const LoadedAdapter> loaded = {};  // null while its model is not loaded
  int id = -1;               // counts the model's adapters in the order in which they came; put() sets it
  float scale = 0;           // in requests that choose no adapter
  bool from_client = false;  // a client had it loaded; otherwise the operator named it
};

// The adapters that a request may use.
struct AvailableAdapters {
  std::string named;                 // the adapter that "model" names; empty: "model" names a model
  std::vector<ServedAdapter> known;  // of the model, by id
};

// Explains why this cannot be an adapter's name; empty: it can. Does not check whether the name is taken.
std::string fault_of_adapter_name(std::string_view name);

// Loads these adapters into the model's engine, in order. Throws nothing. Errors: those of
// Engine::load_adapter, with the name; exhausted (no memory), internal.
Result<std::vector<ServedAdapter>> load_adapters(Engine& engine, const std::vector<NamedAdapter>& adapters);

// Used on the I/O thread. Models are given by their names.
class AdapterRegistry {
 public:
  // Names that requests may use before the model is loaded, whose adapters are then put().
  explicit AdapterRegistry(const std::map<std::string, std::vector<NamedAdapter>>& adapters);

  // The model that has an adapter of this name; none: there is no such adapter.
  std::optional<std::string> model_of(const std::string& adapter) const;
  // The models of all adapters, by their names.
  std::map<std::string, std::string> owners() const;
  // By id.
  const std::vector<ServedAdapter>& of(const std::string& model) const;
  // Adds the adapter. One of the same name is replaced, whose id and scale stay.
  void put(const std::string& model, ServedAdapter adapter);
  // Returns whether it was there. Running requests keep it loaded.
  bool remove(const std::string& model, const std::string& adapter);
  // Sets the scale of each of the model's adapters: 0 for those that are not named here.
  void set_scales(const std::string& model, const std::map<int, float>& by_id);
  // The model was loaded together with these of its adapters. Those that were removed or replaced meanwhile
  // are left out.
  void restore(const std::string& model, const std::vector<ServedAdapter>& loaded);
  // The model is about to be unloaded. Returns its adapters, which must be destroyed before its engine.
  std::vector<std::shared_ptr<const LoadedAdapter>> release(const std::string& model);

 private:
  struct Of {
    std::vector<ServedAdapter> adapters;
    int next_id = 0;
  };
  std::map<std::string, Of> of_;
};

}  // namespace anabranch::server
