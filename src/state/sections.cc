#include "state/sections.h"

#include <algorithm>
#include <cstring>

#include "state/kv_codec.h"

namespace anabranch {
namespace {

KvPart part_of(SectionKind kind) {
  return kind == SectionKind::keys ? KvPart::keys : KvPart::values;
}

const LayerLayout* layer_of(const SectionFormat& format, const SectionTag& tag) {
  if (tag.stack != Stack::model && tag.stack != Stack::mtp) return nullptr;
  const StateLayout& layers = tag.stack == Stack::model ? format.model : format.mtp;
  return tag.layer < layers.size() ? &layers[tag.layer] : nullptr;
}

// A block's keys or values, unchanged, on the device.
ArraySpec exact_block(const SectionFormat& format, SectionKind kind, const KvLayout& layout) {
  const auto shapes = ops::kv_block_shapes(*format.device, layout.kv_heads, layout.head_dim);
  return {kind == SectionKind::keys ? shapes.k : shapes.v, format.device->kv_dtype()};
}

std::optional<ArraySpec> kv_spec(const SectionFormat& format, const SectionTag& tag) {
  const LayerLayout* layer = layer_of(format, tag);
  const auto* layout = layer ? std::get_if<KvLayout>(layer) : nullptr;
  if (!layout || (tag.kind == SectionKind::values && layout->value_dim > 0)) return std::nullopt;
  const ArraySpec exact = exact_block(format, tag.kind, *layout);
  if (format.kv == KvFormat::exact) return exact;
  return ArraySpec{{static_cast<int>(q8_bytes(exact.shape, exact.dtype, part_of(tag.kind)))}, Dtype::u8};
}

// An array without elements has no section.
std::optional<ArraySpec> recurrent_spec(const SectionFormat& format, const SectionTag& tag) {
  const LayerLayout* layer = layer_of(format, tag);
  const auto* shape = layer ? std::get_if<ops::RecurrenceShape>(layer) : nullptr;
  if (!shape || tag.stack != Stack::model || tag.block != 0) return std::nullopt;
  ArraySpec spec{{shape->conv_kernel - 1, shape->conv_channels()}, Dtype::f32};
  if (tag.kind == SectionKind::recurrent_state)
    spec.shape = {shape->value_heads, shape->key_dim, shape->value_dim};
  return spec.shape.count() > 0 ? std::optional(spec) : std::nullopt;
}

constexpr SectionTag kHidden{SectionKind::hidden, Stack::mtp, 0, 0};

SectionTag tag_of(SectionKind kind, Stack stack, int layer, int block = 0) {
  return {kind, stack, static_cast<uint32_t>(layer), static_cast<uint32_t>(block)};
}

// The section's array; null when it is missing or does not match the format.
const Tensor* find_section(const SectionFormat& format, const StateSections& sections,
                           const SectionTag& tag) {
  const auto found = sections.find(tag);
  const auto spec = section_spec(format, tag);
  if (found == sections.end() || !spec) return nullptr;
  const Tensor& data = found->second;
  return data.shape() == spec->shape && data.dtype() == spec->dtype ? &data : nullptr;
}

Device& device_of(const SectionFormat& format, Stack stack, int layer) {
  const bool several = stack == Stack::model && !format.devices.empty();
  return several ? *format.devices.at(static_cast<size_t>(layer)) : *format.device;
}

// Decodes a section's keys or values and copies them to the device.
Tensor block_on_device(const SectionFormat& format, SectionKind kind, const KvLayout& layout,
                       const Tensor& stored, Device& device) {
  if (format.kv == KvFormat::exact) return device.to_device(stored);
  const ArraySpec exact = exact_block(format, kind, layout);
  Tensor host = format.device->empty_host(exact.shape, exact.dtype);
  from_q8(stored, part_of(kind), host, format.device->threads());
  return device.to_device(host);
}

}  // namespace

uint64_t bytes_of(const StateSections& sections) {
  uint64_t sum = 0;
  for (const auto& [tag, data] : sections) sum += data.nbytes();
  return sum;
}

bool holds(const StateSections& sections, Stack stack) {
  return std::any_of(sections.begin(), sections.end(),
                     [&](const auto& section) { return section.first.stack == stack; });
}

std::optional<ArraySpec> section_spec(const SectionFormat& format, const SectionTag& tag) {
  switch (tag.kind) {
    case SectionKind::keys:
    case SectionKind::values:
      return kv_spec(format, tag);
    case SectionKind::recurrent_state:
    case SectionKind::conv_rows:
      return recurrent_spec(format, tag);
    case SectionKind::hidden:
      if (tag != kHidden || format.mtp.empty()) return std::nullopt;
      return ArraySpec{{1, format.mtp_hidden}, Dtype::f32};
  }
  return std::nullopt;  // a kind that this version does not know
}

Result<void> add_section(const SectionFormat& format, const SectionTag& tag, std::span<const std::byte> bytes,
                         StateSections& out) {
  const auto spec = section_spec(format, tag);
  const auto failed = [&](const auto& reason) {
    return make_error(ErrorKind::unsupported, "section (kind {}, stack {}, layer {}, block {}): {}",
                      static_cast<uint32_t>(tag.kind), static_cast<uint32_t>(tag.stack), tag.layer, tag.block,
                      reason);
  };
  if (!spec) return failed("this model's states have no such section");
  if (bytes.size() != spec->bytes())
    return failed(fmt::format("{} bytes instead of {}", bytes.size(), spec->bytes()));
  Tensor data = format.device->empty_host(spec->shape, spec->dtype);
  if (!bytes.empty()) std::memcpy(data.data<char>(), bytes.data(), bytes.size());
  out.insert_or_assign(tag, std::move(data));
  return {};
}

void write_kv_block(const SectionFormat& format, Stack stack, int layer, int block, const ops::PagedKv& kv,
                    StateSections& out) {
  const auto write = [&](SectionKind kind, const Tensor& data) {
    const Tensor host = to_host(data);
    out.emplace(tag_of(kind, stack, layer, block),
                format.kv == KvFormat::q8 ? to_q8(host, part_of(kind), format.device->threads()) : host);
  };
  write(SectionKind::keys, kv.k.at(static_cast<size_t>(block)));
  if (kv.value_dim == 0) write(SectionKind::values, kv.v.at(static_cast<size_t>(block)));
}

bool read_kv_block(const SectionFormat& format, Stack stack, int layer, int block,
                   const StateSections& sections, ops::PagedKv& kv) {
  const Tensor* k = find_section(format, sections, tag_of(SectionKind::keys, stack, layer, block));
  const Tensor* v = find_section(format, sections, tag_of(SectionKind::values, stack, layer, block));
  if (!k || (!v && kv.value_dim == 0)) return false;
  const KvLayout layout{kv.kv_heads, kv.head_dim};
  kv.k.resize(static_cast<size_t>(block)), kv.v.resize(static_cast<size_t>(block));
  Device& device = device_of(format, stack, layer);
  kv.k.push_back(block_on_device(format, SectionKind::keys, layout, *k, device));
  kv.v.push_back(v ? block_on_device(format, SectionKind::values, layout, *v, device) : Tensor());
  return true;
}

void write_recurrent(int layer, const ops::RecurrenceState& state, StateSections& out) {
  const auto write = [&](SectionKind kind, const Tensor& data) {
    if (!data.empty()) out.emplace(tag_of(kind, Stack::model, layer), to_host(data));
  };
  write(SectionKind::recurrent_state, state.s);
  write(SectionKind::conv_rows, state.conv);
}

bool read_recurrent(const SectionFormat& format, int layer, const StateSections& sections,
                    ops::RecurrenceState& state) {
  const auto* shape = std::get_if<ops::RecurrenceShape>(&format.model.at(static_cast<size_t>(layer)));
  if (!shape) return false;
  Device& device = device_of(format, Stack::model, layer);
  state = ops::make_recurrence_state(device, *shape);
  const auto read = [&](SectionKind kind, Tensor& to) {
    if (to.empty()) return true;
    const Tensor* stored = find_section(format, sections, tag_of(kind, Stack::model, layer));
    if (stored) to = device.to_device(*stored);
    return stored != nullptr;
  };
  return read(SectionKind::recurrent_state, state.s) && read(SectionKind::conv_rows, state.conv);
}

void write_hidden(const Tensor& hidden, StateSections& out) {
  out.emplace(kHidden, to_host(hidden));
}

bool read_hidden(const SectionFormat& format, const StateSections& sections, Tensor& hidden) {
  const Tensor* stored = find_section(format, sections, kHidden);
  if (!stored) return false;
  hidden = format.device->to_device(*stored);
  return true;
}

}  // namespace anabranch
