// The peak that utilisation is measured against.
#pragma once

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

// Dense peak of the precision's matrix products on one device (one core of a shared pool). [FLOP/s]
// Throws base::ConfigError when the cluster gives none.
double MatMulPeakFlopsPerS(const ClusterSpec& cluster, Precision precision);

// Dense peak of one of `num_devices` devices: what MFU and HFU divide by. A pool's peak is shared
// by its ranks. [FLOP/s]
double PeakFlopsPerDevice(const ClusterSpec& cluster, Precision precision, int num_devices);

}  // namespace tessera::spec
