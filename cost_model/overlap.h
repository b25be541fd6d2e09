// Communication beside computing: what is hidden, and what hiding costs.
#pragma once

namespace tessera::cost_model {

// Seconds that communication of `comm_s` alone, running beside computing of `window_s` alone, adds
// to the computing: what outlasts it, and the `slowdown` of the computing meanwhile (the share by
// which it takes longer, as Galvatron measures it: Miao et al. 2022, arXiv:2211.13878). The
// computing, slowed, lasts window_s + comm_s * slowdown / (1 + slowdown) where it outlasts the
// communication.
double ExposedSeconds(double comm_s, double window_s, double slowdown);

// The same for a collective cut into `num_chunks` pieces and pipelined with the matrix product next
// to it, which takes `product_s`: one piece has nothing beside it (Wang et al. 2023,
// doi:10.1145/3567955.3567959).
double ExposedBesideProductSeconds(double comm_s, double product_s, int num_chunks,
                                   double slowdown);

}  // namespace tessera::cost_model
