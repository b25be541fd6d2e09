#include <array>
#include <numeric>

#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

constexpr double kRoutingTolerance = 1e-6;

// Rows of tokens in some order: each token `copies` times, every fifth place empty.
struct Routing {
  Routing(int64_t tokens, int64_t copies_of_each)
      : num_tokens(tokens), copies(copies_of_each), routed_row(num_tokens * copies, -1) {
    std::vector<int64_t> places(num_tokens * copies);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937(3));
    for (const int64_t place : places) {
      if (source_row.size() % 5 == 4) {
        source_row.push_back(-1);
        source_place.push_back(-1);
      }
      routed_row[place] = static_cast<int32_t>(source_row.size());
      source_row.push_back(static_cast<int32_t>(place / copies));
      source_place.push_back(place);
    }
    // A token that no expert takes.
    if (num_tokens > 1) Drop(0);
  }

  int64_t num_rows() const { return static_cast<int64_t>(source_row.size()); }
  // Weights of places, in the order of the rows.
  Floats OfRows(const Floats& weight) const {
    Floats rows;
    for (const int64_t place : source_place) rows.push_back(place < 0 ? 7.0F : weight[place]);
    return rows;
  }

  int64_t num_tokens, copies;
  std::vector<int32_t> source_row;    // token of each row
  std::vector<int64_t> source_place;  // token * copies + copy of each row
  std::vector<int32_t> routed_row;    // row of each place

 private:
  void Drop(int64_t place) {
    source_row[routed_row[place]] = -1;
    source_place[routed_row[place]] = -1;
    routed_row[place] = -1;
  }
};

Floats Permute(Backend& backend, const Routing& routing, int64_t width, const Floats& x,
               const Floats& scale) {
  const DeviceFloats device_x(backend, x), device_scale(backend, scale);
  const DeviceInts source_row(backend, routing.source_row);
  const DeviceFloats out = Unset(backend, routing.num_rows() * width);
  backend.TokenPermute({.x = device_x,
                        .source_row = source_row,
                        .scale = scale.empty() ? ConstArray() : ConstArray(device_scale),
                        .out = out,
                        .num_rows = routing.num_rows(),
                        .width = width,
                        .num_tokens = routing.num_tokens});
  return out.Values();
}

Floats Unpermute(Backend& backend, const Routing& routing, int64_t width, const Floats& x,
                 const Floats& weight) {
  const DeviceFloats device_x(backend, x), device_weight(backend, weight);
  const DeviceInts routed_row(backend, routing.routed_row);
  const DeviceFloats out = Unset(backend, routing.num_tokens * width);
  backend.TokenUnpermute({.x = device_x,
                          .routed_row = routed_row,
                          .weight = weight.empty() ? ConstArray() : ConstArray(device_weight),
                          .out = out,
                          .num_rows = routing.num_rows(),
                          .width = width,
                          .num_tokens = routing.num_tokens,
                          .copies = routing.copies});
  return out.Values();
}

TEST(RoutingTest, PermuteAndUnpermuteMatchTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const auto& [tokens, copies, width] :
         {std::array<int64_t, 3>{1, 1, 1}, {7, 2, 5}, {33, 4, 70}}) {
      const Routing routing(tokens, copies);
      const Floats x = RandomFloats(tokens * width, 1);
      const Floats rows = RandomFloats(routing.num_rows() * width, 2);
      const Floats weight = RandomFloats(tokens * copies, 3);
      const Floats scale = routing.OfRows(weight);
      ExpectNear(Permute(*backend, routing, width, x, scale),
                 reference::TokenPermute(width, ToDoubles(x), routing.source_row, ToDoubles(scale)),
                 kRoutingTolerance, "permute");
      ExpectNear(Unpermute(*backend, routing, width, rows, weight),
                 reference::TokenUnpermute(width, copies, ToDoubles(rows), routing.routed_row,
                                           ToDoubles(weight)),
                 kRoutingTolerance, "unpermute");
    }
  }
}

TEST(RoutingTest, AbsentWeightsCountAsOne) {
  const auto backend = MakeCpuBackend(1);
  const Routing routing(9, 2);
  const Floats x = RandomFloats(9 * 6, 1), rows = RandomFloats(routing.num_rows() * 6, 2);
  EXPECT_EQ(Permute(*backend, routing, 6, x, {}),
            Permute(*backend, routing, 6, x, Floats(routing.num_rows(), 1.0F)));
  EXPECT_EQ(Unpermute(*backend, routing, 6, rows, {}),
            Unpermute(*backend, routing, 6, rows, Floats(18, 1.0F)));
}

// <permute(x), y> = <x, unpermute(y)>: each is the gradient of the other, with the same weights.
TEST(RoutingTest, UnpermuteIsTheTransposeOfPermute) {
  const auto backend = MakeCpuBackend(1);
  constexpr int64_t kWidth = 8;
  const Routing routing(21, 3);
  const Floats x = RandomFloats(21 * kWidth, 1);
  const Floats y = RandomFloats(routing.num_rows() * kWidth, 2);
  const Floats weight = RandomFloats(21 * 3, 3, 0, 1);
  const Floats forward = Permute(*backend, routing, kWidth, x, routing.OfRows(weight));
  const Floats backward = Unpermute(*backend, routing, kWidth, y, weight);
  const double left = std::inner_product(forward.begin(), forward.end(), y.begin(), 0.0);
  const double right = std::inner_product(x.begin(), x.end(), backward.begin(), 0.0);
  EXPECT_NEAR(left, right, 1e-5 * std::abs(left));
  EXPECT_GT(std::abs(left), 0.01);
}

}  // namespace
}  // namespace tessera::kernels::testing
