#include "kernels/grouped_matmul.h"

namespace tessera::kernels {
namespace {

using base::MatMulLayout;

// body(group, first row, rows) of the groups that have rows.
template <typename Body>
void ForGroups(const int64_t* group_rows, int64_t num_groups, const Body& body) {
  int64_t first_row = 0;
  for (int64_t group = 0; group < num_groups; ++group) {
    if (group_rows[group] > 0) body(group, first_row, group_rows[group]);
    first_row += group_rows[group];
  }
}

MatMulArgs WeightGradientOf(const GroupedMatMulArgs& args, int64_t group, int64_t first_row,
                            int64_t num_rows) {
  return {.a = args.a.At(first_row * args.m),
          .b = args.b.At(first_row * args.n),
          .c = args.c.At(group * args.group_stride),
          .m = args.m,
          .n = args.n,
          .k = num_rows,
          .lda = args.m,
          .ldb = args.n,
          .ldc = args.n,
          .layout = args.layout,
          .accumulate = true};
}

MatMulArgs ProductOf(const GroupedMatMulArgs& args, int64_t group, int64_t first_row,
                     int64_t num_rows) {
  return {.a = args.a.At(first_row * args.k),
          .b = args.b.At(group * args.group_stride),
          .c = args.c.At(first_row * args.n),
          .m = num_rows,
          .n = args.n,
          .k = args.k,
          .lda = args.k,
          .ldb = args.layout == MatMulLayout::kNT ? args.k : args.n,
          .ldc = args.n,
          .layout = args.layout,
          .epilogue = args.epilogue,
          .bias = args.bias.At(group * args.bias_stride)};
}

}  // namespace

std::vector<MatMulArgs> ProductsOf(const GroupedMatMulArgs& args) {
  std::vector<MatMulArgs> products;
  ForGroups(args.group_rows, args.num_groups, [&](int64_t group, int64_t first, int64_t rows) {
    products.push_back(args.layout == MatMulLayout::kTN ? WeightGradientOf(args, group, first, rows)
                                                        : ProductOf(args, group, first, rows));
  });
  return products;
}

std::vector<BiasGradArgs> SumsOf(const GroupedBiasGradArgs& args) {
  std::vector<BiasGradArgs> sums;
  ForGroups(args.group_rows, args.num_groups, [&](int64_t group, int64_t first, int64_t rows) {
    sums.push_back({.dy = args.dy.At(first * args.width),
                    .dbias = args.dbias.At(group * args.bias_stride),
                    .num_rows = rows,
                    .width = args.width,
                    .stride = args.width});
  });
  return sums;
}

}  // namespace tessera::kernels
