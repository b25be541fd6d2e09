#pragma once

#include <vector>

#include "cost_model/base/op.h"

namespace tessera::engine {

// Keeps what it is told of, in order.
class OpRecorder final : public base::OpObserver {
 public:
  void OnOpBegin(const base::OpRecord& record) override { records.push_back(record); }
  void OnOpEnd(const base::OpRecord& /*record*/) override {}
  std::vector<base::OpRecord> records;
};

}  // namespace tessera::engine
