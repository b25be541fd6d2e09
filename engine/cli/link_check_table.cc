#include "engine/cli/link_check_table.h"

#include <string>

#include "engine/cli/text_rows.h"

namespace tessera::engine {
namespace {

struct Row {
  std::string name;
  double bandwidth_bytes_per_s, expected_bytes_per_s;
  double latency_s, expected_latency_s;
  bool is_wrong = false;
};

void PrintRow(const Row& row, double least_share, std::ostream& out) {
  const double gb_per_s = 1e-9, us_per_s = 1e6;
  out << Format("  %-16s %10.2f", row.name.c_str(), row.bandwidth_bytes_per_s * gb_per_s);
  const bool is_known = row.expected_bytes_per_s > 0;
  const double share = is_known ? row.bandwidth_bytes_per_s / row.expected_bytes_per_s : 1;
  if (is_known) {
    out << Format(" %10.2f GB/s %5.0f %%", row.expected_bytes_per_s * gb_per_s, 100 * share);
  } else {
    out << Format(" %10s GB/s %7s", "-", "-");
  }
  out << Format(" %10.2f", row.latency_s * us_per_s)
      << (is_known ? Format(" %10.2f us", row.expected_latency_s * us_per_s)
                   : Format(" %10s us", "-"));
  if (share < least_share) out << "  slow";
  if (row.is_wrong) out << "  wrong";
  out << '\n';
}

}  // namespace

void PrintLinkCheck(const LinkCheck& check, double least_share, std::ostream& out) {
  out << check.num_ranks << " ranks\n";
  out << Format("  %-16s %10s %10s      %7s %10s %10s\n", "", "bandwidth", "expected", "share",
                "latency", "expected");
  for (const CollectiveCheck& of : check.collectives) {
    PrintRow(
        {std::string(base::ToString(of.kind)), of.bandwidth_bytes_per_s,
         of.expected_bandwidth_bytes_per_s, of.latency_s, of.expected_latency_s, !of.wrong.empty()},
        least_share, out);
  }
  for (const PairCheck& pair : check.pairs) {
    PrintRow({Format("ranks %d and %d", pair.first, pair.second), pair.bandwidth_bytes_per_s,
              check.expected_bandwidth_bytes_per_s, pair.latency_s, check.expected_latency_s},
             least_share, out);
  }
  for (const CollectiveCheck& of : check.collectives) {
    if (of.wrong.empty()) continue;
    out << "\nWrong results of " << base::ToString(of.kind) << ": " << of.wrong << ".\n";
  }
}

}  // namespace tessera::engine
