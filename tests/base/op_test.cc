#include "cost_model/base/op.h"

#include <gtest/gtest.h>

#include <set>

#include "cost_model/base/check.h"

namespace tessera::base {
namespace {

constexpr int kNumKinds = static_cast<int>(OpKind::kBarrier) + 1;

TEST(OpTest, EveryKindHasItsOwnName) {
  std::set<std::string_view> names;
  for (int kind = 0; kind < kNumKinds; ++kind) names.insert(ToString(static_cast<OpKind>(kind)));
  EXPECT_EQ(static_cast<int>(names.size()), kNumKinds);
  EXPECT_EQ(names.count("?"), 0u);
  EXPECT_THROW(ToString(static_cast<OpKind>(kNumKinds)), CheckFailure);
}

TEST(OpTest, CommunicationStartsWithTheCollectives) {
  EXPECT_FALSE(IsCommunication(OpKind::kMatMul));
  EXPECT_FALSE(IsCommunication(OpKind::kCopy));
  EXPECT_TRUE(IsCommunication(OpKind::kAllReduce));
  EXPECT_TRUE(IsCommunication(OpKind::kSend));
  EXPECT_TRUE(IsCommunication(OpKind::kBarrier));
}

TEST(OpTest, ARecordPrintsItsKindAndItsSizes) {
  const std::string text = ToString(OpRecord{OpKind::kAdamW, {123456}});
  EXPECT_NE(text.find("adamw"), std::string::npos) << text;
  EXPECT_NE(text.find("123456"), std::string::npos) << text;
}

TEST(OpTest, RecordsDifferByKindAndByEverySize) {
  const OpRecord record{OpKind::kMatMul, {1, 2, 3, 0, 1, 2}};
  EXPECT_EQ(record, record);
  OpRecord other = record;
  other.kind = OpKind::kCopy;
  EXPECT_NE(record, other);
  for (size_t i = 0; i < record.dims.size(); ++i) {
    other = record;
    ++other.dims[i];
    EXPECT_NE(record, other) << i;
  }
}

}  // namespace
}  // namespace tessera::base
