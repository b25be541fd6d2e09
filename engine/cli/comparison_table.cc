#include "engine/cli/comparison_table.h"

#include <iomanip>
#include <string>

namespace tessera::engine {
namespace {

// "rank 0", "ranks 0, 1", "no rank"
std::string RanksText(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  return text;
}

// "[3, 17]"
std::string IndexText(const std::vector<int64_t>& index) {
  std::string text = "[";
  for (size_t d = 0; d < index.size(); ++d) text += (d > 0 ? ", " : "") + std::to_string(index[d]);
  return text + "]";
}

void PrintFirst(const Difference& first, double tolerance, std::ostream& out) {
  constexpr int kDigits = 9;  // tell all fp32 numbers apart
  out << "\nThe first that differs by more than " << tolerance << ": the " << ToString(first.kind)
      << " of " << first.name << ", by " << first.deviation << " of its size.\n"
      << std::setprecision(kDigits);
  if (first.index.empty()) {
    out << "  A has " << first.a << ", B has " << first.b << ".\n";
  } else {
    out << "  Element " << IndexText(first.index) << " is " << first.a << " under A ("
        << RanksText(first.ranks_a) << ") and " << first.b << " under B ("
        << RanksText(first.ranks_b) << ").\n";
  }
  if (first.num_replicas_apart > 0) {
    out << "  " << first.num_replicas_apart
        << " of its elements are not the same on all ranks that hold them.\n";
  }
}

}  // namespace

void PrintComparison(const LayoutComparison& comparison, std::ostream& out) {
  const std::ios::fmtflags flags = out.flags();
  const std::streamsize precision = out.precision();
  out << "  " << std::left << std::setw(16) << "" << std::right << std::setw(10) << "compared"
      << std::setw(20) << "largest difference"
      << "  of\n";
  for (const KindComparison& kind : comparison.kinds) {
    out << "  " << std::left << std::setw(16) << ToString(kind.kind) << std::right << std::setw(10)
        << kind.num_compared << std::setw(20) << std::scientific << std::setprecision(1)
        << kind.largest.deviation << "  " << kind.largest.name << '\n';
  }
  out << std::defaultfloat << std::setprecision(3);
  if (comparison.first) {
    PrintFirst(*comparison.first, comparison.tolerance, out);
  } else {
    out << "\nBoth layouts train the same: nothing differs by more than " << comparison.tolerance
        << " of its size.\n";
  }
  out << "Compared in this order: the loss of the first step, its gradients in the order of the "
         "backward pass, its gradient norm, losses and norms of later steps, then weights and "
         "moments in the order of the forward pass.\n";
  out.flags(flags);
  out.precision(precision);
}

}  // namespace tessera::engine
