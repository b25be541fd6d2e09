// Deadlines and budgets, over points made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/what_if/questions.h"
#include "tests/planner/what_if_points.h"

namespace tessera::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kDay = 86400;

// 64,000 tokens a step; so many tokens that a step of a second makes ten days.
RunTerms TenDays() { return TermsWithoutFailures(64'000 * 10 * kDay); }

// Days and dollars: 11 and 2,112; 5 and 1,920; 4 and 2,304 on cluster a; 3 and 2,188.80 on b.
std::vector<HandPoint> Hands() {
  return {{.num_devices = 8, .step_time_s = 1.1, .price_per_hour = 1},
          {.num_devices = 16, .step_time_s = 0.5, .price_per_hour = 1},
          {.num_devices = 24, .step_time_s = 0.4, .price_per_hour = 1},
          {.cluster = "b", .num_devices = 16, .step_time_s = 0.3, .price_per_hour = 1.9}};
}

Answer AnswerTo(const RunTerms& terms, const std::vector<HandPoint>& hands = Hands()) {
  const std::vector<Answer> answers = AnswerQuestions(MakeHandPoints(hands, terms), terms);
  EXPECT_EQ(answers.size(), 1U);
  return answers.at(0);
}

TEST(WhatIfQuestionsTest, WithoutADeadlineOrABudgetNothingIsAnswered) {
  EXPECT_TRUE(AnswerQuestions(MakeHandPoints(Hands(), TenDays()), TenDays()).empty());
}

TEST(WhatIfQuestionsTest, ADeadlineIsAnsweredByTheCheapestAndTheFewestDevices) {
  RunTerms terms = TenDays();
  terms.within_s = 4.5 * kDay;
  const Answer answer = AnswerTo(terms);
  EXPECT_TRUE(answer.is_feasible);
  EXPECT_EQ(answer.fewest_devices, 3);
  EXPECT_EQ(answer.cheapest, 3);
  terms.within_s = 6 * kDay;  // the second too
  const Answer later = AnswerTo(terms);
  EXPECT_EQ(later.point, 1);
  EXPECT_EQ(later.cheapest, 1);
  EXPECT_THAT(later.alternatives, ElementsAre(3));
}

TEST(WhatIfQuestionsTest, WithoutAllPricesTheFewestDevicesAreTheAnswer) {
  RunTerms terms = TenDays();
  terms.within_s = 6 * kDay;
  std::vector<HandPoint> hands = Hands();
  hands[2].price_per_hour = 0;
  const Answer answer = AnswerTo(terms, hands);
  EXPECT_TRUE(answer.is_feasible);
  EXPECT_FALSE(answer.cheapest);
  EXPECT_EQ(answer.point, 3);  // 16 devices, the faster of two
  EXPECT_THAT(answer.text, HasSubstr("--price"));
}

TEST(WhatIfQuestionsTest, ABudgetIsAnsweredByTheFastestItPaysFor) {
  RunTerms terms = TenDays();
  terms.budget_usd = 2'000;
  const Answer answer = AnswerTo(terms);
  EXPECT_TRUE(answer.is_feasible);
  EXPECT_EQ(answer.point, 1);
  terms.budget_usd = 3'000;
  EXPECT_EQ(AnswerTo(terms).point, 3);
}

TEST(WhatIfQuestionsTest, TooLittleTimeIsToldWithWhatWouldDo) {
  RunTerms terms = TenDays();
  terms.within_s = 2 * kDay;
  const Answer answer = AnswerTo(terms);
  EXPECT_FALSE(answer.is_feasible);
  EXPECT_EQ(answer.point, 3);  // three days
  EXPECT_THAT(answer.text, HasSubstr("3.0 days"));
  EXPECT_THAT(answer.unlock, Contains(HasSubstr("more time: 3.0 days")));
  // Two thirds of 55.30 B tokens.
  EXPECT_THAT(answer.unlock, Contains(HasSubstr("fewer tokens: 36.86 B")));
}

TEST(WhatIfQuestionsTest, TooSmallABudgetIsToldWithWhatWouldDo) {
  RunTerms terms = TenDays();
  terms.budget_usd = 960;  // half of what the cheapest costs, at $1 an hour
  const Answer answer = AnswerTo(terms);
  EXPECT_FALSE(answer.is_feasible);
  EXPECT_EQ(answer.point, 1);
  EXPECT_THAT(answer.unlock, Contains(HasSubstr("$1,920")));
  EXPECT_THAT(answer.unlock, Contains(HasSubstr("$0.50")));
}

TEST(WhatIfQuestionsTest, ADeadlineAndABudgetThatExcludeEachOtherAreTold) {
  RunTerms terms = TenDays();
  terms.within_s = 4.5 * kDay;
  terms.budget_usd = 2'000;
  const Answer answer = AnswerTo(terms);
  EXPECT_FALSE(answer.is_feasible);
  EXPECT_THAT(answer.text, HasSubstr("both"));
  EXPECT_THAT(answer.unlock, Contains(HasSubstr("$2,189")));
}

TEST(WhatIfQuestionsTest, FailuresThatLeaveNoTimeAreTold) {
  RunTerms terms = TenDays();
  terms.within_s = kDay;
  terms.restart_s.value = 1e7;
  terms.mtbf_device_s.value = 100;  // e^(-1e7 / 12) of the time is useful: no double holds it
  const Answer answer = AnswerTo(terms);
  EXPECT_FALSE(answer.is_feasible);
  EXPECT_THAT(answer.text, HasSubstr("failures"));
  EXPECT_FALSE(answer.unlock.empty());
}

TEST(WhatIfQuestionsTest, WhereNothingFitsThereIsNoPoint) {
  RunTerms terms = TenDays();
  terms.within_s = kDay;
  std::vector<WhatIfPoint> points = MakeHandPoints({{}}, terms);
  points[0].found.best.reset();
  points[0].run.reset();
  const std::vector<Answer> answers = AnswerQuestions(points, terms);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].is_feasible);
  EXPECT_FALSE(answers[0].point);
}

}  // namespace
}  // namespace tessera::planner
