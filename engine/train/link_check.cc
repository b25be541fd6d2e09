#include "engine/train/link_check.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "cost_model/base/check.h"
#include "engine/comm/gather.h"
#include "engine/comm/thread_world.h"
#include "engine/train/machine_profile.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::OpKind;
using base::ReduceOp;

constexpr int64_t kSmallTotalElements = 256;  // of all ranks' blocks together, at least one a rank
constexpr int kSmallBatch = 20;               // small operations timed together
constexpr int kMostRanksForAllPairs = 8;
constexpr int kTag = 1;

// Small whole numbers: sums over any number of ranks that fits a job are exact in fp32.
float ValueAt(int rank, int64_t element) {
  return static_cast<float>((element * 7 + int64_t{rank} * 13) % 31 + 1);
}

class DeviceFloats {
 public:
  DeviceFloats(kernels::Backend& backend, int64_t count)
      : backend_(backend), count_(count), data_(static_cast<float*>(backend.Allocate(bytes()))) {}
  ~DeviceFloats() { backend_.Free(data_, bytes()); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* data() { return data_; }
  void Set(const std::vector<float>& values) {
    backend_.CopyToDevice(data_, values.data(), bytes());
  }
  std::vector<float> Get() {
    std::vector<float> values(static_cast<size_t>(count_));
    backend_.CopyToHost(values.data(), data_, bytes());
    return values;
  }

 private:
  size_t bytes() const { return static_cast<size_t>(count_) * sizeof(float); }
  kernels::Backend& backend_;
  int64_t count_;
  float* data_;
};

// One kind of operation over `total` elements: how it is called, what must come out.
struct Operation {
  OpKind kind;
  double ring_share;  // of the bytes of `total`, what a rank of a ring sends
  std::function<void(const float* input, float* output, int64_t total)> call;
  // Of element i of the output; its length is `total`, or of kReduceScatter a block.
  std::function<float(int64_t i, int64_t total)> expected;
};

std::vector<Operation> OperationsOf(Communicator& comm) {
  const int n = comm.size();
  const int rank = comm.rank();
  const int next = (rank + 1) % n;
  const int previous = (rank + n - 1) % n;
  const double others = static_cast<double>(n - 1) / n;
  const auto sum = [n](int64_t element) {
    float value = 0;
    for (int r = 0; r < n; ++r) value += ValueAt(r, element);
    return value;
  };
  return {
      {OpKind::kAllReduce, 2 * others,
       [&comm](const float* in, float* out, int64_t total) {
         comm.AllReduce(in, out, total, DType::kFloat32, ReduceOp::kSum);
       },
       [sum](int64_t i, int64_t) { return sum(i); }},
      {OpKind::kReduceScatter, others,
       [&comm, n](const float* in, float* out, int64_t total) {
         comm.ReduceScatter(in, out, total / n, DType::kFloat32, ReduceOp::kSum);
       },
       [sum, n, rank](int64_t i, int64_t total) { return sum(rank * (total / n) + i); }},
      {OpKind::kAllGather, others,
       [&comm, n](const float* in, float* out, int64_t total) {
         comm.AllGather(in, out, total / n, DType::kFloat32);
       },
       [n](int64_t i, int64_t total) {
         return ValueAt(static_cast<int>(i / (total / n)), i % (total / n));
       }},
      // The root sends what the others receive in its place.
      {OpKind::kBroadcast, 1,
       [&comm](const float* /*in*/, float* out, int64_t total) {
         comm.Broadcast(out, total, DType::kFloat32, /*root=*/0);
       },
       [](int64_t i, int64_t) { return ValueAt(0, i); }},
      {OpKind::kAllToAll, others,
       [&comm, n](const float* in, float* out, int64_t total) {
         comm.AllToAll(in, out, total / n, DType::kFloat32);
       },
       [n, rank](int64_t i, int64_t total) {
         const int64_t block = total / n;
         return ValueAt(static_cast<int>(i / block), rank * block + i % block);
       }},
      {OpKind::kSend, 1,
       [&comm, next, previous](const float* in, float* out, int64_t total) {
         comm.GroupStart();
         comm.Send(in, total, DType::kFloat32, next, kTag);
         comm.Recv(out, total, DType::kFloat32, previous, kTag);
         comm.GroupEnd();
       },
       [previous](int64_t i, int64_t) { return ValueAt(previous, i); }},
  };
}

// What a rank found wrong first.
struct WrongElement {
  int64_t element = -1;  // -1: nothing
  float found = 0;
  float expected = 0;
};

class LinkChecker {
 public:
  LinkChecker(RankDevice& device, Communicator& host_world, const LinkCheckSizes& sizes)
      : device_(device), comm_(device.world()), host_world_(host_world), sizes_(sizes) {}

  LinkCheck Run() {
    const int n = comm_.size();
    TESSERA_CHECK(n >= 2, comm_.name(), ": no link in a group of ", n);
    LinkCheck check{.num_ranks = n};
    const int64_t large = std::max<int64_t>(1, sizes_.large_elements / n) * n;
    const int64_t small = std::max<int64_t>(1, kSmallTotalElements / n) * n;
    for (const Operation& operation : OperationsOf(comm_)) {
      CollectiveCheck& of = check.collectives.emplace_back();
      of.kind = operation.kind;
      for (const int64_t total : {small, large}) {
        if (of.wrong.empty()) of.wrong = FindWrong(operation, total);
      }
      of.latency_s = Time(operation, small, kSmallBatch);
      of.bandwidth_bytes_per_s = operation.ring_share * static_cast<double>(large * sizeof(float)) /
                                 Time(operation, large, 1);
    }
    for (int first = 0; first < n; ++first) {
      const int last = n <= kMostRanksForAllPairs ? n - 1 : std::min(n - 1, first + 1);
      for (int second = first + 1; second <= last; ++second) {
        check.pairs.push_back(CheckPair(first, second, large));
      }
    }
    return check;
  }

 private:
  std::string FindWrong(const Operation& operation, int64_t total) {
    const bool is_scatter = operation.kind == OpKind::kReduceScatter;
    const int64_t num_results = is_scatter ? total / comm_.size() : total;
    DeviceFloats input(device_.backend(), total);
    DeviceFloats output(device_.backend(), num_results);
    input.Set(Numbers(total));
    // The root of a broadcast has its numbers there; elsewhere a number that none of them is.
    const bool is_root = operation.kind == OpKind::kBroadcast && comm_.rank() == 0;
    output.Set(is_root ? Numbers(total)
                       : std::vector<float>(static_cast<size_t>(num_results), -1.0F));
    operation.call(input.data(), output.data(), total);
    const std::vector<float> results = output.Get();
    WrongElement wrong;
    for (int64_t i = 0; i < num_results && wrong.element < 0; ++i) {
      const float expected = operation.expected(i, total);
      const float found = results[static_cast<size_t>(i)];
      if (!(found == expected)) wrong = {i, found, expected};
    }
    return TextOf(GatherLists(std::vector<WrongElement>{wrong}, host_world_), total);
  }

  static std::string TextOf(const std::vector<std::vector<WrongElement>>& by_rank, int64_t total) {
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      const WrongElement& wrong = by_rank[rank].front();
      if (wrong.element < 0) continue;
      return base::Concat("rank ", rank, " got ", wrong.found, " instead of ", wrong.expected,
                          " as element ", wrong.element, ", of ", total, " sent");
    }
    return "";
  }

  std::vector<float> Numbers(int64_t total) const {
    std::vector<float> values(static_cast<size_t>(total));
    for (int64_t i = 0; i < total; ++i) {
      values[static_cast<size_t>(i)] = ValueAt(comm_.rank(), i);
    }
    return values;
  }

  // Median seconds of one, on the slowest rank.
  double Time(const Operation& operation, int64_t total, int batch_size) {
    DeviceFloats input(device_.backend(), total);
    DeviceFloats output(device_.backend(), total);
    input.Set(Numbers(total));
    output.Set(Numbers(total));
    return Median(batch_size, [&] { operation.call(input.data(), output.data(), total); });
  }

  double Median(int batch_size, const std::function<void()>& call) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> times_s;
    for (int i = 0; i <= sizes_.num_repetitions; ++i) {
      device_.backend().Synchronize();
      host_world_.Barrier();
      const Clock::time_point start = Clock::now();
      for (int j = 0; j < batch_size; ++j) call();
      device_.backend().Synchronize();
      const std::chrono::duration<double> elapsed = Clock::now() - start;
      // The first one touches the pages and wakes the ranks.
      if (i > 0) times_s.push_back(elapsed.count() / batch_size);
    }
    const auto middle = times_s.begin() + static_cast<int64_t>(times_s.size()) / 2;
    std::nth_element(times_s.begin(), middle, times_s.end());
    double slowest_s = 0;
    for (const auto& of_rank : GatherLists(std::vector<double>{*middle}, host_world_)) {
      slowest_s = std::max(slowest_s, of_rank.front());
    }
    return slowest_s;
  }

  // There and back, halved.
  PairCheck CheckPair(int first, int second, int64_t large) {
    const auto time_s = [&](int64_t count, int batch_size) {
      DeviceFloats data(device_.backend(), count);
      data.Set(Numbers(count));
      return Median(batch_size,
                    [&] {
                      if (comm_.rank() == first) {
                        comm_.Send(data.data(), count, DType::kFloat32, second, kTag);
                        comm_.Recv(data.data(), count, DType::kFloat32, second, kTag);
                      } else if (comm_.rank() == second) {
                        comm_.Recv(data.data(), count, DType::kFloat32, first, kTag);
                        comm_.Send(data.data(), count, DType::kFloat32, first, kTag);
                      }
                    }) /
             2;
    };
    return {.first = first,
            .second = second,
            .bandwidth_bytes_per_s = static_cast<double>(large * sizeof(float)) / time_s(large, 1),
            .latency_s = time_s(1, kSmallBatch)};
  }

  RankDevice& device_;
  Communicator& comm_;
  Communicator& host_world_;
  const LinkCheckSizes sizes_;
};

int NumGpus(const DeviceOptions& options) {
  int num_gpus = 1;
  RunThreadRanks(1, {.timeout_s = options.timeout_s}, [&](Communicator& world) {
    num_gpus = MakeRankDevice({.device = options.device}, world)->Info().num_devices;
  });
  return num_gpus;
}

}  // namespace

bool LinkCheck::has_wrong() const {
  return std::any_of(collectives.begin(), collectives.end(),
                     [](const CollectiveCheck& of) { return !of.wrong.empty(); });
}

LinkCheck CheckLinks(RankDevice& device, Communicator& host_world, const LinkCheckSizes& sizes) {
  return LinkChecker(device, host_world, sizes).Run();
}

LinkCheck CheckLinksOfJob(DeviceOptions options, int num_ranks, bool& is_first) {
  LinkCheck check;
  const auto process = FindProcessRank(ReadEnvironment);
  is_first = !process || process->rank == 0;
  if (process) {
    options.comm = options.device == DeviceKind::kCuda ? CommKind::kNccl : CommKind::kGloo;
    const ProcessDevice joined =
        JoinProcesses(options, *process, FindMeetingPlace(ReadEnvironment));
    return CheckLinks(*joined.device, *joined.host_world);
  }
  const bool is_gpu = options.device == DeviceKind::kCuda;
  const int num_gpus = is_gpu ? NumGpus(options) : 0;
  if (num_ranks == 0) num_ranks = std::max(2, is_gpu ? num_gpus : ReadHostInfo().num_cores);
  options.comm = num_ranks <= num_gpus ? CommKind::kNccl : CommKind::kThread;
  RunThreadRanks(num_ranks, {.timeout_s = options.timeout_s}, [&](Communicator& world) {
    const auto device = MakeRankDevice(options, world);
    const LinkCheck mine = CheckLinks(*device, world);
    if (world.rank() == 0) check = mine;
  });
  return check;
}

void SetExpectations(const spec::ClusterSpec& cluster, LinkCheck& check) {
  const bool is_within = check.num_ranks <= spec::DevicesPerDomain(cluster);
  const spec::LinkSpec& link = is_within ? cluster.intra_node : cluster.inter_node;
  // The table's largest message: the checked ones are large.
  const double size_efficiency =
      link.size_efficiency.empty() ? 1 : link.size_efficiency.back().efficiency;
  check.expected_bandwidth_bytes_per_s =
      link.bandwidth_bytes_per_s * link.efficiency * size_efficiency;
  check.expected_latency_s = link.latency_s + cluster.collectives.overhead_s;
  const int n = check.num_ranks;
  for (CollectiveCheck& of : check.collectives) {
    int ring_steps = n - 1;
    if (of.kind == OpKind::kAllReduce) ring_steps = 2 * (n - 1);
    if (of.kind == OpKind::kSend) ring_steps = 1;
    of.expected_bandwidth_bytes_per_s = check.expected_bandwidth_bytes_per_s;
    of.expected_latency_s = ring_steps * link.latency_s + cluster.collectives.overhead_s;
  }
}

}  // namespace tessera::engine
