// SPDX-License-Identifier: Apache-2.0
#include "support/json.h"

#include <gtest/gtest.h>

namespace errand {
namespace {

std::string error_of(std::string_view text) {
  std::string error = "(none)";
  EXPECT_FALSE(parse_json(text, error)) << text;
  return error;
}

TEST(Json, RoundTripKeepsOrder) {
  std::string error;
  const auto value = parse_json(" {\"b\": [1, -2.5, true, null], \"a\": \"\\u00e9\\n\"} \n", error);
  ASSERT_TRUE(value) << error;
  EXPECT_EQ(to_text(*value).substr(0, 6), "{\"b\":[");
  EXPECT_EQ(to_text(value->at("a")), "\"é\\n\"");
}

TEST(Json, NumbersOutOfRangeStayNumbersWhenWritten) {
  std::string error;
  for (const char* text : {"[1e400]", "[-1e400]", "[0e333333333]", "{\"a\": {\"b\": [33330e333333333]}}"}) {
    const auto value = parse_json(text, error);
    ASSERT_TRUE(value) << text << ": " << error;
    EXPECT_TRUE(parse_json(to_text(*value), error)) << to_text(*value) << ": " << error;
  }
}

TEST(Json, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error_of(""), "line 1, column 1: the text is empty");
  EXPECT_EQ(error_of(" \n"), "line 2, column 1: the text is empty");
  EXPECT_EQ(error_of("{\"a\": 1,\n \"b\" 2}"), "line 2, column 6: expected ':'");
  EXPECT_EQ(error_of("[1,\n\n  2 3]"), "line 3, column 5: expected ',' or ']'");
  EXPECT_EQ(error_of("{\"a\": 1 \"b\"}"), "line 1, column 9: expected ',' or '}'");
  EXPECT_EQ(error_of("[1,]"), "line 1, column 4: expected a value");
  EXPECT_EQ(error_of("{\"a\": 1,}"), "line 1, column 9: expected a string");
  EXPECT_EQ(error_of("{a: 1}"), "line 1, column 2: expected a string or '}'");
  EXPECT_EQ(error_of("[}"), "line 1, column 2: expected a value or ']'");
  EXPECT_EQ(error_of("[1"), "line 1, column 3: the text ends too early");
  EXPECT_EQ(error_of("\"abc"), "line 1, column 5: the text ends too early");
  EXPECT_EQ(error_of("[1] x"), "line 1, column 5: expected the end of the text");
  EXPECT_EQ(error_of("[\"é\" 1]"), "line 1, column 6: expected ',' or ']'");  // columns are characters
  EXPECT_EQ(error_of("\"a\nb\""), "line 1, column 3: control character or bad escape in a string");
  EXPECT_EQ(error_of("[1, nulx]"), "line 1, column 5: expected a value");
}

TEST(Json, InvalidUtf8IsRefusedWithItsPosition) {
  EXPECT_EQ(error_of("{\"a\":\n \"\xff\"}"), "line 2, column 3: invalid UTF-8");
  EXPECT_EQ(error_of("[\"\xc3\xa9\x80\"]"), "line 1, column 4: invalid UTF-8");
  EXPECT_EQ(error_of("[\"\xe2\x82"), "line 1, column 3: invalid UTF-8");
}

TEST(Json, DepthLimitIs256) {
  std::string error;
  EXPECT_TRUE(parse_json(std::string(256, '[') + std::string(256, ']'), error)) << error;
  EXPECT_EQ(error_of(std::string(257, '[') + std::string(257, ']')), "line 1, column 257: nested more than 256 deep");
  EXPECT_NE(error_of(std::string(1'000'000, '[')).find("nested more than 256 deep"), std::string::npos);
}

TEST(Json, LinesOfValues) {
  const std::string_view text =
      "\n{ \"a\":\n [1,\n  {\"b/c\": \"x\\\"y]\",\n\"d\":\n\n{}, \"d\"\n:\n[ [], null,\n\n-1e5] }]\n,\"e\":\ntrue}";
  std::string error;
  ASSERT_TRUE(parse_json(text, error)) << error;
  EXPECT_EQ(json_line(text, ""), 2);
  EXPECT_EQ(json_line(text, "/a"), 3);
  EXPECT_EQ(json_line(text, "/a/0"), 3);
  EXPECT_EQ(json_line(text, "/a/1"), 4);
  EXPECT_EQ(json_line(text, "/a/1/b~1c"), 4);
  EXPECT_EQ(json_line(text, "/a/1/d"), 9);  // the last of two
  EXPECT_EQ(json_line(text, "/a/1/d/1"), 9);
  EXPECT_EQ(json_line(text, "/a/1/d/2"), 11);
  EXPECT_EQ(json_line(text, "/a/1/none/x"), 4);
  EXPECT_EQ(json_line(text, "/e"), 13);
  EXPECT_EQ(json_line(text, "/e/x"), 13);
}

TEST(Json, Getters) {
  std::string error;
  const auto value =
      parse_json(R"({"s":"x","i":7,"d":5.0,"f":5.5,"b":true,"o":{},"a":[],"u":18446744073709551615})", error);
  ASSERT_TRUE(value) << error;
  const json::object& object = value->as_object();
  EXPECT_EQ(get_string(object, "s"), "x");
  EXPECT_EQ(get_string(object, "i"), std::nullopt);
  EXPECT_EQ(get_int(object, "i"), 7);
  EXPECT_EQ(get_int(object, "d"), 5);
  EXPECT_EQ(get_int(object, "f"), std::nullopt);
  EXPECT_EQ(get_int(object, "u"), std::nullopt);
  EXPECT_EQ(get_int(object, "none"), std::nullopt);
  EXPECT_EQ(get_bool(object, "b"), true);
  EXPECT_EQ(get_bool(object, "s"), std::nullopt);
  EXPECT_NE(get_object(object, "o"), nullptr);
  EXPECT_EQ(get_object(object, "a"), nullptr);
  EXPECT_NE(get_array(object, "a"), nullptr);
  EXPECT_EQ(get_array(object, "none"), nullptr);
}

}  // namespace
}  // namespace errand
