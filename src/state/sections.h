// A cached state as sections: host arrays, each with a tag that describes its contents. Each kind of layer
// state writes its own sections and reads them back by tag, so their order does not matter.
// docs/cache-format.md specifies the tags and the arrays to the byte.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "base/result.h"
#include "state/kv_format.h"
#include "state/sequence_state.h"

namespace anabranch {

// Stored in files: a number never changes its meaning.
enum class SectionKind : uint32_t { keys = 1, values = 2, recurrent_state = 3, conv_rows = 4, hidden = 5 };
enum class Stack : uint32_t { model = 0, mtp = 1 };

struct SectionTag {
  SectionKind kind = SectionKind::keys;
  Stack stack = Stack::model;
  uint32_t layer = 0;  // index in the stack; 0 for the hidden state
  uint32_t block = 0;  // for keys and values: position / ops::kKvBlock; otherwise 0
  auto operator<=>(const SectionTag&) const = default;
};
static_assert(sizeof(SectionTag) == 16);

using StateSections = std::map<SectionTag, Tensor>;  // tensors of the host
uint64_t bytes_of(const StateSections& sections);
// Whether any section belongs to this stack.
bool holds(const StateSections& sections, Stack stack);

// Everything that the sections of a model's states depend on.
struct SectionFormat {
  Device* device = nullptr;  // device of the states
  StateLayout model, mtp;    // mtp: empty if the model has no MTP head
  int mtp_hidden = 0;        // width of its hidden states
  KvFormat kv = KvFormat::exact;
  std::vector<Device*> devices = {};  // one for each part of `model`; empty: all are on `device`
};

// The shape and type of a section's array; none if such states have no section with this tag.
struct ArraySpec {
  Shape shape;
  Dtype dtype = Dtype::f32;
  size_t bytes() const { return static_cast<size_t>(shape.count()) * anabranch::bytes_of(dtype); }
};
std::optional<ArraySpec> section_spec(const SectionFormat& format, const SectionTag& tag);

// Adds a section with a copy of `bytes`. Errors: unsupported (no such section, or it has another size).
Result<void> add_section(const SectionFormat& format, const SectionTag& tag, std::span<const std::byte> bytes,
                         StateSections& out);

// The functions below write a part of a state to `out`, or read it back. Reading returns false if a section
// is missing or does not have the shape and type of the format; the part that was read so far is then
// undefined.

// Keys and values of one block of an attention layer. Reading makes it the last block of `kv`, at index
// `block`; missing blocks before it become empty tensors. kv.length does not change.
void write_kv_block(const SectionFormat& format, Stack stack, int layer, int block, const ops::PagedKv& kv,
                    StateSections& out);
bool read_kv_block(const SectionFormat& format, Stack stack, int layer, int block,
                   const StateSections& sections, ops::PagedKv& kv);

// The recurrent state and the conv rows of a recurrent layer of the model. `state` must have no window. An
// array without elements has no section: a short convolution has no recurrent state.
void write_recurrent(int layer, const ops::RecurrenceState& state, StateSections& out);
bool read_recurrent(const SectionFormat& format, int layer, const StateSections& sections,
                    ops::RecurrenceState& state);

// The MTP head's hidden state, whose next token is not known yet.
void write_hidden(const Tensor& hidden, StateSections& out);
bool read_hidden(const SectionFormat& format, const StateSections& sections, Tensor& hidden);

}  // namespace anabranch
