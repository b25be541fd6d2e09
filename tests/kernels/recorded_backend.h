// A CPU backend that is held to what it tells its observer.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace tessera::kernels::testing {

class RecordedBackendTest : public ::testing::Test {
 protected:
  // Runs one operation and expects its record, begun and ended once.
  template <typename Run>
  void ExpectRecord(const base::OpRecord& expected, const Run& run) {
    Recorder recorder;
    backend->set_observer(&recorder);
    run();
    backend->set_observer(nullptr);
    const std::vector<base::OpRecord> once = {expected};
    EXPECT_EQ(recorder.begun, once) << base::ToString(expected);
    EXPECT_EQ(recorder.ended, once) << base::ToString(expected);
  }

  std::unique_ptr<Backend> backend = MakeCpuBackend(1);

 private:
  struct Recorder : public base::OpObserver {
    void OnOpBegin(const base::OpRecord& record) override { begun.push_back(record); }
    void OnOpEnd(const base::OpRecord& record) override { ended.push_back(record); }
    std::vector<base::OpRecord> begun, ended;
  };
};

}  // namespace tessera::kernels::testing
