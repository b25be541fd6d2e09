// How much of a long run's time is useful when devices fail.
#pragma once

namespace tessera::planner {

// What failures cost. A job stops when any of its devices fails.
struct FailureTerms {
  double mtbf_s = 0;        // mean time between failures of the whole job; infinite: none
  double checkpoint_s = 0;  // the training stands still for each checkpoint
  double restart_s = 0;     // from a failure to the first step after it, reading included
};

// The interval between checkpoints that loses least, to first order: sqrt(2 C M).
// Young 1974, "A first order approximation to the optimum checkpoint interval".
double YoungIntervalS(double checkpoint_s, double mtbf_s);

// To higher order: sqrt(2 C M) (1 + sqrt(C / 2 M) / 3 + (C / 2 M) / 9) - C where C < 2 M, else M.
// Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps",
// equation 37. Infinite without failures.
double DalyIntervalS(double checkpoint_s, double mtbf_s);

// Shares of the wall time; they sum to 1.
struct Goodput {
  double interval_s = 0;  // of work between checkpoints
  double useful_share = 1;
  double checkpoint_share = 0;
  double rework_share = 0;  // done again after failures
  double restart_share = 0;
};

// With failures at random (exponential) and checkpoints after each `interval_s` of work, Daly's
// equation 13: wall time = M e^(R/M) (e^((interval + C) / M) - 1) / interval x time of the work.
// Of it 1 - e^(-R/M) passes in restarts, as failures come 1 / M times a second and each restart
// lasts R, or until the next of them.
Goodput GoodputOf(const FailureTerms& terms, double interval_s);

// At Daly's interval.
Goodput BestGoodput(const FailureTerms& terms);

}  // namespace tessera::planner
