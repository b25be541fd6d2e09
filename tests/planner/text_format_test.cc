#include "planner/text_format.h"

#include <gtest/gtest.h>

namespace tessera::planner {
namespace {

TEST(TextFormatTest, WhatRoundsToZeroHasNoSign) {
  EXPECT_EQ(FormatFixed(-0.04, 1), "0.0");
  EXPECT_EQ(FormatFixed(-0.06, 1), "-0.1");
  EXPECT_EQ(FormatFixed(-0.4, 0), "0");
  EXPECT_EQ(FormatPercent(-1e-9), "0.0 %");
}

TEST(TextFormatTest, NumbersReadAsPeopleWriteThem) {
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(3.1e-6), "3.1 us");
  EXPECT_EQ(FormatSeconds(0.0042), "4.20 ms");
  EXPECT_EQ(FormatSeconds(18.13), "18.13 s");
  EXPECT_EQ(FormatSeconds(784.21), "784.2 s");
  EXPECT_EQ(FormatBytes(1536.0 * 1024 * 1024), "1.5 GiB");
  EXPECT_EQ(FormatBytes(100), "100 B");
  EXPECT_EQ(FormatSi(124.4e6), "124.40 M");
  EXPECT_EQ(FormatSi(3.386e18), "3.39 E");
  EXPECT_EQ(FormatPercent(0.473), "47.3 %");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(-1000), "-1,000");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatPlural(1, "layout"), "1 layout");
  EXPECT_EQ(FormatPlural(2000, "layout"), "2,000 layouts");
}

TEST(TextTableTest, AlignsNumbersRightAndTextLeft) {
  TextTable table({"name", "n"});
  table.AddRow({"a", "10"});
  table.AddRow({"long", "7"});
  EXPECT_EQ(table.ToString(2), "  name   n\n  a     10\n  long   7\n");
}

TEST(WrapTextTest, BreaksLongLinesUnderTheBullet) {
  std::string words;
  for (int i = 0; i < 30; ++i) words += "word ";
  const std::string text = WrapText(words, "  - ");
  EXPECT_EQ(text.substr(0, 8), "  - word");
  EXPECT_NE(text.find("\n    word"), std::string::npos);
}

}  // namespace
}  // namespace tessera::planner
