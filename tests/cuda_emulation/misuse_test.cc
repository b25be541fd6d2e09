// Accesses that a GPU traps on and a CPU lets pass.
#include <gmock/gmock.h>

#include "tests/cuda_emulation/emulation_testing.h"

namespace tessera::cuda_emulation {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

__global__ void CopyVectors(float4* to, const float* from) {
  to[threadIdx.x] = reinterpret_cast<const float4*>(from)[threadIdx.x];
}
__global__ void IndexShared(float* out, int index) {
  __shared__ float values[2][3];
  values[0][index] = 1.0f;
  out[0] = values[0][index];
}

class MisuseTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef TESSERA_MISUSE_IS_A_FAULT
    GTEST_SKIP() << "a sanitizer of the whole build tells of such accesses";
#endif
  }
};

TEST_F(MisuseTest, AVectorAccessAtAMisalignedAddressIsAFault) {
  const DeviceArray<float> from(64);
  const DeviceArray<float4> to(8);
  EXPECT_EQ(FaultOf(CopyVectors, 1, 8, 0, to.data(), from.data() + 4), "no fault");
  EXPECT_THAT(FaultOf(CopyVectors, 1, 8, 0, to.data(), from.data() + 1),
              AllOf(HasSubstr("CopyVectors"), HasSubstr("float4"), HasSubstr("no multiple of 16"),
                    HasSubstr("misuse_test.cc:")));
}

TEST_F(MisuseTest, AnIndexBeyondAStaticArrayIsAFault) {
  const DeviceArray<float> out(1);
  EXPECT_EQ(FaultOf(IndexShared, 1, 1, 0, out.data(), 2), "no fault");
  EXPECT_THAT(FaultOf(IndexShared, 1, 1, 0, out.data(), 3),
              AllOf(HasSubstr("index 3 is out of bounds"), HasSubstr("misuse_test.cc:")));
}

}  // namespace
}  // namespace tessera::cuda_emulation
