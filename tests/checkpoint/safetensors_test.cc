#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

using testing::SafetensorsWriter;
using testing::with_header;

Result<SafetensorsFile> parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "x.safetensors");
}

// The error's text, or "" when there is none.
std::string error_of(const std::string& bytes) {
  const auto file = parse(bytes);
  return file.ok() ? "" : file.error().message;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
}

TEST(Safetensors, reads_names_types_shapes_and_data) {
  const std::string bytes = SafetensorsWriter()
                                .add("b", "U8", {3}, "xyz")  // leaves "a" misaligned
                                .f32("a", {2, 2}, {1, 2, 3, 4})
                                .add("scalar", "BF16", {}, "12")
                                .add("none", "F32", {0, 4}, "")
                                .bytes("mlx");
  const auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->format, "mlx");
  ASSERT_EQ(file->tensors.size(), 4u);
  EXPECT_EQ(file->tensors[0].name, "a");
  EXPECT_EQ(file->tensors[0].shape, (std::vector<int64_t>{2, 2}));
  float values[4];
  std::memcpy(values, file->tensors[0].data.data(), 16);
  EXPECT_EQ(values[3], 4);
  EXPECT_EQ(file->tensors[1].data.size(), 3u);
  EXPECT_EQ(file->tensors[3].shape.size(), 0u);
}

TEST(Safetensors, tensors_in_thousands_take_no_quadratic_time) {
  SafetensorsWriter writer;
  for (int i = 0; i < 50000; i++) writer.add("layer." + std::to_string(i), "U8", {1}, "x");
  const auto file = parse(writer.bytes());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->tensors.size(), 50000u);
}

TEST(Safetensors, IntegersBeyond64BitsAreNumbers) {
  const std::string number = "1000000000000000019884624838656";
  const auto file = parse(with_header("{\"__metadata__\":{\"n\":" + number +
                                          "},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                                      "x"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors.size(), 1u);
  EXPECT_NE(error_of(with_header(entry("U8", "[" + number + "]", "[0,1]"), "x")).find("not a whole number"),
            std::string::npos);
  const auto index = parse_safetensors_index(
      "{\"metadata\":{\"total_size\":" + number + "},\"weight_map\":{\"a\":\"b.safetensors\"}}", "i.json");
  ASSERT_TRUE(index.ok()) << index.error().message;
  EXPECT_EQ(index->front().second, "b.safetensors");
}

struct Defect {
  const char* name;
  std::string bytes;
  const char* message;  // part of the expected one
};

class SafetensorsDefect : public ::testing::TestWithParam<Defect> {};

TEST_P(SafetensorsDefect, is_named) {
  const std::string message = error_of(GetParam().bytes);
  EXPECT_NE(message.find("x.safetensors"), std::string::npos) << message;
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

const std::string kTwo =
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}";
const std::string kTwice =
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
    "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";

INSTANTIATE_TEST_SUITE_P(
    All, SafetensorsDefect,
    ::testing::Values(
        Defect{"empty", "", "too few"}, Defect{"short_length", "\x01\x02", "too few"},
        Defect{"huge_header", std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "absurd"},
        Defect{"header_beyond_file", std::string("\x40\0\0\0\0\0\0\0{}", 10), "truncated"},
        Defect{"not_json", with_header("{\"a\":", ""), "not JSON"},
        Defect{"not_an_object", with_header("[1]", ""), "not a JSON object"},
        Defect{"deep_json", with_header(std::string(5000, '['), ""), "not JSON"},
        Defect{"entry_not_object", with_header("{\"a\":3}", ""), "not an object"},
        Defect{"no_dtype", with_header("{\"a\":{\"shape\":[1]}}", ""), "tensor \"a\": no \"dtype\""},
        Defect{"unknown_dtype", with_header(entry("Q9", "[1]", "[0,1]"), "x"), "type \"Q9\""},
        Defect{"no_shape", with_header("{\"a\":{\"dtype\":\"U8\"}}", ""), "no \"shape\""},
        Defect{"negative_dim", with_header(entry("U8", "[-1]", "[0,1]"), "x"), "whole number"},
        Defect{"fractional_dim", with_header(entry("U8", "[1.5]", "[0,1]"), "x"), "whole number"},
        Defect{"absurd_dim", with_header(entry("U8", "[99999999999]", "[0,1]"), "x"), "absurd"},
        Defect{"overflowing_shape",
               with_header(entry("U8", "[2147483647,2147483647,2147483647]", "[0,1]"), "x"), "overflows"},
        Defect{"overflow_to_small", with_header(entry("F64", "[2147483647,2147483647]", "[0,8]"), "12345678"),
               "does not fill"},
        Defect{"rank", with_header(entry("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), "x"), "more than 8"},
        Defect{"offsets_one", with_header(entry("U8", "[1]", "[0]"), "x"), "not a pair"},
        Defect{"offsets_text", with_header(entry("U8", "[1]", "[0,\"1\"]"), "x"), "whole numbers"},
        Defect{"offsets_backwards", with_header(entry("U8", "[1]", "[1,0]"), "x"), "backwards"},
        Defect{"data_truncated", with_header(entry("F32", "[4]", "[0,16]"), "1234"), "truncated"},
        Defect{"offset_huge",
               with_header(entry("U8", "[1]", "[18446744073709551614,18446744073709551615]"), "x"),
               "truncated"},
        Defect{"size_wrong", with_header(entry("F32", "[3]", "[0,8]"), "12345678"), "does not fill"},
        Defect{"more_data_than_shape", with_header(entry("F32", "[1]", "[0,8]"), "12345678"),
               "does not fill"},
        Defect{"data_without_shape", with_header(entry("F32", "[0]", "[0,8]"), "12345678"), "does not fill"},
        Defect{"offsets_wrap", with_header(entry("U8", "[8]", "[18446744073709551608,0]"), "12345678"),
               "backwards"},
        Defect{"within_another",
               with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[0,12]},"
                           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]}}",
                           "123456789012"),
               "\"b\" overlaps \"a\""},
        Defect{"same_bytes",
               with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                           "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
                           "1234"),
               "overlaps"},
        Defect{"overlap", with_header(kTwo, "123456789012"), "\"b\" overlaps \"a\""},
        Defect{"twice", with_header(kTwice, "xy"), "there twice"},
        Defect{"empty_name", with_header("{\"\":{}}", ""), "name of 0 bytes"}),
    [](const auto& info) { return info.param.name; });

TEST(SafetensorsIndex, files_are_plain_names) {
  const auto error_of_file = [](const std::string& file) {
    const auto index = parse_safetensors_index("{\"weight_map\":{\"t\":\"" + file + "\"}}", "i.json");
    return index.ok() ? "" : index.error().message;
  };
  EXPECT_EQ(error_of_file("a.safetensors"), "");
  for (const char* bad : {"../a.safetensors", "/etc/a.safetensors", "sub/a.safetensors", "..", "", "a.bin",
                          ".safetensors", "a\\\\b.safetensors", "a\\u0000.safetensors"})
    EXPECT_NE(error_of_file(bad).find("i.json: tensor \"t\""), std::string::npos) << bad;
  EXPECT_FALSE(parse_safetensors_index("{}", "i.json").ok());
  EXPECT_FALSE(parse_safetensors_index("{\"weight_map\":{\"t\":1}}", "i.json").ok());
  EXPECT_FALSE(parse_safetensors_index("nonsense", "i.json").ok());
}

}  // namespace
}  // namespace anabranch
