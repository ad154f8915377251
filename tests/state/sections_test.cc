// Sections of a state: tags, and what of them is refused.
#include "state/sections.h"

#include <gtest/gtest.h>

#include "ops/testing.h"

namespace anabranch {
namespace {

const ops::RecurrenceShape kDelta{
    .key_heads = 1, .value_heads = 2, .key_dim = 8, .value_dim = 4, .conv_kernel = 4};

SectionFormat format_on(Device& device, KvFormat kv = KvFormat::exact) {
  return {&device, {kDelta, KvLayout{2, 24}}, {KvLayout{1, 16}}, 10, kv};
}

TEST(SectionsTest, TagsArePinned) {
  EXPECT_EQ(static_cast<int>(SectionKind::keys), 1);
  EXPECT_EQ(static_cast<int>(SectionKind::values), 2);
  EXPECT_EQ(static_cast<int>(SectionKind::recurrent_state), 3);
  EXPECT_EQ(static_cast<int>(SectionKind::conv_rows), 4);
  EXPECT_EQ(static_cast<int>(SectionKind::hidden), 5);
  EXPECT_EQ(static_cast<int>(Stack::model), 0);
  EXPECT_EQ(static_cast<int>(Stack::mtp), 1);
}

// The layouts alone must say what arrays the states really have.
TEST(SectionsTest, FormsAreThoseOfRealStates) {
  for (Device* device : {&ops::cpu_device(1), &ops::cpu_device(1, true), &ops::reference_device()}) {
    const SectionFormat format = format_on(*device);
    StateSections sections;
    ops::PagedKv kv{2, 24, 0, {}, {}};
    ops::Random random(1);
    const auto rows = [&] {
      return device->to_device(ops::to_tensor(random.vector(3 * 2 * 24), {3, 2, 24}));
    };
    ops::kv_append(kv, rows(), rows());
    write_kv_block(format, Stack::model, 1, 0, kv, sections);
    write_recurrent(0, ops::make_recurrence_state(*device, kDelta), sections);
    EXPECT_EQ(sections.size(), 4u);
    for (const auto& [tag, data] : sections) {
      const auto spec = section_spec(format, tag);
      ASSERT_TRUE(spec.has_value());
      EXPECT_EQ(spec->shape, data.shape());
      EXPECT_EQ(spec->dtype, data.dtype());
    }
    ops::PagedKv again{2, 24, 3, {}, {}};
    EXPECT_TRUE(read_kv_block(format, Stack::model, 1, 0, sections, again));
    const Tensor a = to_host(kv.k[0]), b = to_host(again.k.at(0));
    EXPECT_EQ(std::memcmp(a.data<char>(), b.data<char>(), a.nbytes()), 0);
  }
}

// Values that are a part of the keys have no section.
TEST(SectionsTest, KeysAloneAreARow) {
  for (const KvFormat kind : {KvFormat::exact, KvFormat::q8}) {
    SectionFormat format = format_on(ops::cpu_device(1), kind);
    format.model[1] = KvLayout{1, 24, 0, 16};
    ops::PagedKv kv{1, 24, 0, {}, {}, 16};
    ops::Random random(2);
    ops::kv_append(kv, format.device->to_device(ops::to_tensor(random.vector(3 * 24), {3, 1, 24})), Tensor());
    StateSections sections;
    write_kv_block(format, Stack::model, 1, 0, kv, sections);
    ASSERT_EQ(sections.size(), 1u);
    EXPECT_EQ(sections.begin()->first.kind, SectionKind::keys);
    EXPECT_TRUE(section_spec(format, sections.begin()->first).has_value());
    EXPECT_FALSE(section_spec(format, {SectionKind::values, Stack::model, 1, 0}).has_value());
    ops::PagedKv again{1, 24, 3, {}, {}, 16};
    ASSERT_TRUE(read_kv_block(format, Stack::model, 1, 0, sections, again));
    EXPECT_EQ(again.v.size(), 1u);
    EXPECT_TRUE(again.v[0].empty());
    if (kind == KvFormat::q8) continue;
    EXPECT_EQ(std::memcmp(kv.k[0].data<char>(), again.k[0].data<char>(), kv.k[0].nbytes()), 0);
    ops::PagedKv wider{1, 24, 3, {}, {}};
    EXPECT_FALSE(read_kv_block(format, Stack::model, 1, 0, sections, wider)) << "values of its own";
  }
}

TEST(SectionsTest, ReadingFailsWithoutTheSection) {
  const SectionFormat format = format_on(ops::cpu_device(1));
  StateSections sections;
  ops::PagedKv kv{2, 24, 0, {}, {}};
  ops::kv_add_block(*format.device, kv);
  write_kv_block(format, Stack::model, 1, 0, kv, sections);
  ops::PagedKv out{2, 24, 0, {}, {}};
  EXPECT_FALSE(read_kv_block(format, Stack::model, 1, 1, sections, out)) << "another block";
  EXPECT_FALSE(read_kv_block(format, Stack::mtp, 0, 0, sections, out)) << "another stack";
  EXPECT_FALSE(read_kv_block(format, Stack::model, 0, 0, sections, out)) << "a recurrent layer";
  EXPECT_FALSE(read_kv_block(format_on(ops::cpu_device(1), KvFormat::q8), Stack::model, 1, 0, sections, out));
  EXPECT_FALSE(read_kv_block(format_on(ops::cpu_device(1, true)), Stack::model, 1, 0, sections, out));
  EXPECT_TRUE(out.k.empty() && out.v.empty());
  EXPECT_TRUE(read_kv_block(format, Stack::model, 1, 0, sections, out));
  ops::RecurrenceState delta;
  EXPECT_FALSE(read_recurrent(format, 0, sections, delta));
  Tensor hidden;
  EXPECT_FALSE(read_hidden(format, sections, hidden));
  write_hidden(format.device->zeros({1, 9}, Dtype::f32), sections);
  EXPECT_FALSE(read_hidden(format, sections, hidden)) << "of another width";
}

TEST(SectionsTest, ARecurrentStateIsOneBlock) {
  const SectionFormat format = format_on(ops::cpu_device(1));
  for (const SectionKind kind : {SectionKind::recurrent_state, SectionKind::conv_rows}) {
    EXPECT_TRUE(section_spec(format, {kind, Stack::model, 0, 0}).has_value());
    EXPECT_FALSE(section_spec(format, {kind, Stack::model, 0, 1}).has_value());
    EXPECT_FALSE(section_spec(format, {kind, Stack::mtp, 0, 0}).has_value());
  }
}

// A recurrence without a convolution has no rows of one.
TEST(SectionsTest, EmptyArraysNeedNoSection) {
  SectionFormat format = format_on(ops::cpu_device(1));
  ops::RecurrenceShape shape = kDelta;
  shape.conv_kernel = 1;
  format.model[0] = shape;
  StateSections sections;
  write_recurrent(0, ops::make_recurrence_state(*format.device, shape), sections);
  EXPECT_EQ(sections.size(), 1u);
  ops::RecurrenceState again;
  EXPECT_TRUE(read_recurrent(format, 0, sections, again));
  EXPECT_FALSE(again.s.empty());
}

// Of a model in parts.
TEST(SectionsTest, EachLayerIsReadOntoItsDevice) {
  SectionFormat format = format_on(ops::cpu_device(1));
  Device& first = *format.device;
  Device& second = ops::reference_device();
  StateSections sections;
  ops::PagedKv kv{2, 24, 0, {}, {}};
  ops::Random random(1);
  const auto rows = [&] { return ops::to_tensor(random.vector(3 * 2 * 24), {3, 2, 24}); };
  ops::kv_append(kv, first.to_device(rows()), first.to_device(rows()));
  write_kv_block(format, Stack::model, 1, 0, kv, sections);
  write_recurrent(0, ops::make_recurrence_state(first, kDelta), sections);
  for (const bool swapped : {false, true}) {
    format.devices = swapped ? std::vector{&second, &first} : std::vector{&first, &second};
    ops::PagedKv again{2, 24, 3, {}, {}};
    ASSERT_TRUE(read_kv_block(format, Stack::model, 1, 0, sections, again));
    EXPECT_EQ(again.k[0].device().kind(), format.devices[1]->kind());
    EXPECT_EQ(again.v[0].device().kind(), format.devices[1]->kind());
    ops::RecurrenceState state;
    ASSERT_TRUE(read_recurrent(format, 0, sections, state));
    EXPECT_EQ(state.s.device().kind(), format.devices[0]->kind());
  }
}

TEST(SectionsTest, SaysWhyASectionIsNotAdded) {
  const SectionFormat format = format_on(ops::cpu_device(1));
  StateSections sections;
  const std::vector<std::byte> bytes(44);
  const auto reason = [&](SectionTag tag, size_t size) {
    const auto added = add_section(format, tag, std::span(bytes).first(size), sections);
    return added.ok() ? std::string() : added.error().message;
  };
  EXPECT_EQ(reason({SectionKind{7}, Stack::model, 3, 2}, 40),
            "section (kind 7, stack 0, layer 3, block 2): this model's states have no such section");
  EXPECT_EQ(reason({SectionKind::hidden, Stack::mtp, 0, 0}, 44),
            "section (kind 5, stack 1, layer 0, block 0): 44 bytes instead of 40");
  EXPECT_TRUE(sections.empty());
  EXPECT_EQ(reason({SectionKind::hidden, Stack::mtp, 0, 0}, 40), "");
  EXPECT_EQ(bytes_of(sections), 40u);
  EXPECT_TRUE(holds(sections, Stack::mtp));
  EXPECT_FALSE(holds(sections, Stack::model));
}

}  // namespace
}  // namespace anabranch
