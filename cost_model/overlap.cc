#include "cost_model/overlap.h"

#include <algorithm>

namespace tessera::cost_model {

double ExposedSeconds(double comm_s, double window_s, double slowdown) {
  return std::max(comm_s - window_s, comm_s * slowdown / (1 + slowdown));
}

double ExposedBesideProductSeconds(double comm_s, double product_s, int num_chunks,
                                   double slowdown) {
  const double piece_s = comm_s / num_chunks;
  // A cluster whose slow-down eats the gain is better off without.
  return std::min(comm_s, piece_s + ExposedSeconds(comm_s - piece_s, product_s, slowdown));
}

}  // namespace tessera::cost_model
