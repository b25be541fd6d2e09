#include <nvtx3/nvToolsExt.h>

#include "kernels/cuda/op_ranges.h"

namespace tessera::kernels::cuda {
namespace {

class NvtxRanges final : public base::OpObserver {
 public:
  NvtxRanges() : domain_(nvtxDomainCreateA("tessera")) {}
  ~NvtxRanges() override { nvtxDomainDestroy(domain_); }
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;

  void OnOpBegin(const base::OpRecord& record) override {
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = base::ToString(record.kind).data();  // of a literal: ends in zero
    nvtxDomainRangePushEx(domain_, &attributes);
  }
  void OnOpEnd(const base::OpRecord& /*record*/) override { nvtxDomainRangePop(domain_); }

 private:
  nvtxDomainHandle_t domain_;
};

}  // namespace

std::unique_ptr<base::OpObserver> MakeOpRanges() { return std::make_unique<NvtxRanges>(); }

}  // namespace tessera::kernels::cuda
