// Quantities as people type them.
#include <gtest/gtest.h>

#include "cost_model/base/error.h"
#include "planner/what_if/quantity_text.h"

namespace tessera::planner {
namespace {

TEST(WhatIfQuantityTest, CountsTakeSuffixesAndExponents) {
  EXPECT_DOUBLE_EQ(ParseCount("15T", "--tokens"), 15e12);
  EXPECT_DOUBLE_EQ(ParseCount("15e12", "--tokens"), 15e12);
  EXPECT_DOUBLE_EQ(ParseCount("1.4B", "--tokens"), 1.4e9);
  EXPECT_DOUBLE_EQ(ParseCount("250k", "--tokens"), 250e3);
  EXPECT_DOUBLE_EQ(ParseCount("7", "--tokens"), 7);
}

TEST(WhatIfQuantityTest, DollarsDurationsAndBandwidthsHaveTheirUnits) {
  EXPECT_DOUBLE_EQ(ParseDollars("5M", "--budget"), 5e6);
  EXPECT_DOUBLE_EQ(ParseDollars("$250k", "--budget"), 250e3);
  EXPECT_DOUBLE_EQ(ParseDollars("2.5", "--price"), 2.5);
  EXPECT_DOUBLE_EQ(ParseDollars("0", "--price"), 0);
  EXPECT_DOUBLE_EQ(ParseDuration("60d", "--within"), 60 * 86400.0);
  EXPECT_DOUBLE_EQ(ParseDuration("1.5h", "--within"), 5400);
  EXPECT_DOUBLE_EQ(ParseDuration("2w", "--within"), 14 * 86400.0);
  EXPECT_DOUBLE_EQ(ParseBandwidth("400Gb/s", "--inter-node-bandwidths"), 50e9);
  EXPECT_DOUBLE_EQ(ParseBandwidth("50GB/s", "--inter-node-bandwidths"), 50e9);
}

TEST(WhatIfQuantityTest, AnXMakesAFactor) {
  const Scaling twice = ParseScaling("2x", "--inter-node-bandwidths", ParseBandwidth);
  EXPECT_TRUE(twice.is_factor);
  EXPECT_DOUBLE_EQ(twice.value, 2);
  const Scaling rate = ParseScaling("50GB/s", "--inter-node-bandwidths", ParseBandwidth);
  EXPECT_FALSE(rate.is_factor);
  EXPECT_DOUBLE_EQ(rate.value, 50e9);
}

TEST(WhatIfQuantityTest, WhatIsNoQuantityIsWrongInput) {
  for (const char* text :
       {"", "T", "-5", "nan", "inf", "1e999", "15 T", "15X", "0", "--", "1.5.2T"}) {
    EXPECT_THROW(ParseCount(text, "--tokens"), base::ConfigError) << text;
  }
  for (const char* text : {"60", "d", "-3d", "0d", "60 days", "1e400d"}) {
    EXPECT_THROW(ParseDuration(text, "--within"), base::ConfigError) << text;
  }
  for (const char* text : {"-2", "$", "five", "", "$-1"}) {
    EXPECT_THROW(ParseDollars(text, "--price"), base::ConfigError) << text;
  }
  for (const char* text : {"50", "50GB", "-1GB/s", "0x"}) {
    EXPECT_THROW(ParseScaling(text, "--inter-node-bandwidths", ParseBandwidth), base::ConfigError)
        << text;
  }
}

}  // namespace
}  // namespace tessera::planner
