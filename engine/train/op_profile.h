// How long each kind and shape of operation takes on one rank.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "cost_model/base/op.h"
#include "cost_model/spec/plan.h"
#include "cost_model/spec/rank_layout.h"
#include "kernels/backend.h"

namespace tessera::engine {

// All operations of one kind and shape, over the profiled steps.
struct OpUse {
  base::OpRecord record;
  int64_t count = 0;
  double seconds = 0;
};

struct OpProfile {
  int rank = 0;
  spec::RankCoord coord;
  int64_t num_steps = 0;
  double steps_s = 0;      // together
  std::vector<OpUse> ops;  // the longest first
};

// Puts a mark of the backend before and behind every operation that the steps call; on a GPU these
// are events of the compute stream. A collective that runs behind others counts with its posting
// alone: what a pass waits for it later lies between operations.
class OpProfiler final : public base::OpObserver {
 public:
  // `backend` must outlive the profiler.
  explicit OpProfiler(kernels::Backend& backend) : backend_(backend) {}

  // Around a step, which must begin with a mark of its own. What is called outside of steps is not
  // seen.
  void BeginStep() { is_in_step_ = true; }
  // `mark_times_s`: of the step's marks. `counts`: whether the step goes into the profile.
  void EndStep(const std::vector<double>& mark_times_s, double step_time_s, bool counts);

  void OnOpBegin(const base::OpRecord& record) override;
  void OnOpEnd(const base::OpRecord& record) override;

  // Without rank and coord.
  OpProfile Take() const;

 private:
  struct Span {
    base::OpRecord record;
    size_t begin = 0;
    size_t end = 0;
  };
  struct Total {
    int64_t count = 0;
    double seconds = 0;
  };
  struct Less {
    bool operator()(const base::OpRecord& a, const base::OpRecord& b) const {
      return a.kind != b.kind ? a.kind < b.kind : a.dims < b.dims;
    }
  };

  kernels::Backend& backend_;
  bool is_in_step_ = false;
  std::vector<Span> open_;   // begun, not ended
  std::vector<Span> spans_;  // of the running step
  std::map<base::OpRecord, Total, Less> totals_;
  int64_t num_steps_ = 0;
  double steps_s_ = 0;
};

// Hands operations on to two others, in turn inside each other.
class ObserverPair final : public base::OpObserver {
 public:
  // Both must outlive it.
  ObserverPair(base::OpObserver& outer, base::OpObserver& inner) : outer_(outer), inner_(inner) {}
  void OnOpBegin(const base::OpRecord& record) override {
    outer_.OnOpBegin(record);
    inner_.OnOpBegin(record);
  }
  void OnOpEnd(const base::OpRecord& record) override {
    inner_.OnOpEnd(record);
    outer_.OnOpEnd(record);
  }

 private:
  base::OpObserver& outer_;
  base::OpObserver& inner_;
};

// What an operation does in a second, and how near that is to what the device can.
struct OpRates {
  double flops_per_s = 0;  // 0: it computes no products
  double bytes_per_s = 0;  // least traffic of memory, or, of communication, of the links
  // Of the peak of products or the bandwidth of memory that the plan's cluster gives a rank,
  // whichever is nearer; 0: none known.
  double share_of_peak = 0;
};
// Of communication the element type is that of what the axis carries: activations, of gradients
// fp32. Bytes of a collective are those that a rank of a ring sends.
OpRates RatesOf(const OpUse& use, const spec::Plan& plan);

// The part of a step that an operation belongs to, as a step report has it.
enum class OpGroup : uint8_t {
  kCompute,
  kTensorComm,
  kContextComm,
  kExpertComm,
  kPipelineComm,
  kDataComm,
  kOptimizer,
};
inline constexpr size_t kNumOpGroups = 7;
std::string_view ToString(OpGroup group);  // "compute", "tensor comm.", ...
OpGroup GroupOf(const base::OpRecord& record);
// Seconds of all profiled steps, by group.
std::array<double, kNumOpGroups> SecondsByGroup(const OpProfile& profile);
// The prediction's seconds of a step for the group: exposed ones, of the critical stage.
double PredictedSeconds(OpGroup group, const spec::TimeBreakdown& time);

}  // namespace tessera::engine
