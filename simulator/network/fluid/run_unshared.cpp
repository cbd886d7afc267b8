#include "simulator/network/fluid/run_unshared.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace foretrace {
namespace {

// Messages of different steps that are looked at, 24 bytes each.
constexpr int64_t kMostDifferent = int64_t{1} << 24;
// Between two reports of progress: some ten milliseconds.
constexpr int64_t kMessagesBetween = int64_t{1} << 24;
// What rounding could make of shares of a link that flows of different rates pass.
constexpr double kMargin = 1 + 1e-9;

class Unshared {
 public:
  Unshared(const Topology& topology, const TransferPlan& plan)
      : topology_(topology),
        plan_(plan),
        schedule_(*plan.schedule),
        ranks_(static_cast<size_t>(schedule_.ranks())) {}

  // False: the plan is another, or messages could slow one another.
  bool Prepare() {
    if (schedule_.lanes() != 1 || schedule_.steps() < 1 || ranks_ < 2) return false;
    FindDifferentSteps();
    if (static_cast<int64_t>(steps_.size()) * schedule_.ranks() > kMostDifferent) return false;
    for (Step& step : steps_) {
      step.from.assign(ranks_, -1);
      step.drain.resize(ranks_);
      step.latency.resize(ranks_);
    }
    for (int32_t rank = 0; rank < schedule_.ranks(); ++rank) {
      if (!AddRank(rank)) return false;
    }
    return NoneIsFull();
  }

  absl::StatusOr<RealSeconds> Run(const FlowProgress& progress) const {
    std::vector<double> now(ranks_, plan_.launch.seconds());
    std::vector<double> drained(ranks_);
    const int64_t total = schedule_.flows();
    int64_t done = 0;
    int64_t told = 0;
    for (const size_t which : step_of_) {
      steps_[which].Advance(now, drained);
      done += schedule_.ranks();
      if (progress && done >= told + kMessagesBetween) {
        told = done;
        if (!progress(done, total)) {
          return absl::CancelledError("interrupted while messages were simulated");
        }
      }
    }
    return RealSeconds(*std::ranges::max_element(now));
  }

 private:
  // Steps with the same sends. Times are bare numbers of seconds, which Advance goes through fast.
  struct Step {
    int32_t first = 0;
    std::vector<int32_t> from;    // whose message arrives at each rank
    std::vector<double> drain;    // what each rank's message takes to leave
    std::vector<double> latency;  // of each rank's message

    // When each rank enters the step -> the next one. The sums are those of the full simulation.
    void Advance(std::vector<double>& now, std::vector<double>& drained) const {
      const size_t ranks = now.size();
      const double* seconds = drain.data();
      double* time = now.data();
      double* left = drained.data();
      for (size_t rank = 0; rank < ranks; ++rank) left[rank] = time[rank] + seconds[rank];
      const int32_t* sender = from.data();
      const double* delay = latency.data();
      for (size_t rank = 0; rank < ranks; ++rank) {
        const auto other = static_cast<size_t>(sender[rank]);
        const double arrival = left[other] + delay[other];
        time[rank] = left[rank] > arrival ? left[rank] : arrival;
      }
    }
  };
  struct Link {
    Bandwidth capacity;
    int32_t last = -1;  // rank that was seen on it
    int32_t users = 0;  // ranks whose messages pass it, in any step
    Bandwidth slowest;
    Bandwidth fastest;  // of these messages
  };
  void FindDifferentSteps() {
    std::vector<size_t> index(static_cast<size_t>(schedule_.steps()));
    for (int32_t step = 0; step < schedule_.steps(); ++step) {
      const int32_t same = schedule_.SameStep(step);
      if (same == step) {
        index[static_cast<size_t>(step)] = steps_.size();
        steps_.push_back({step, {}, {}, {}});
      } else {
        index[static_cast<size_t>(step)] = index[static_cast<size_t>(same)];
      }
    }
    step_of_ = std::move(index);
  }

  // The messages of a rank in every step: exactly one leaves and one arrives.
  bool AddRank(int32_t rank) {
    for (Step& step : steps_) {
      sends_.clear();
      schedule_.Sends(rank, 0, step.first, sends_);
      if (sends_.size() != 1 || schedule_.Receives(rank, 0, step.first) != 1) return false;
      const Send& send = sends_.front();
      int32_t& from = step.from[static_cast<size_t>(send.to)];
      if (from >= 0 || !(send.bytes > RealBytes())) return false;
      from = rank;
      const DeviceId a = plan_.devices[static_cast<size_t>(rank)];
      const DeviceId b = plan_.devices[static_cast<size_t>(send.to)];
      topology_.FindRoute(a, b, route_);
      if (route_.links.empty()) return false;
      const bool inter = topology_.node_of(a) != topology_.node_of(b);
      step.drain[static_cast<size_t>(rank)] = (send.bytes / Pass(rank)).seconds();
      step.latency[static_cast<size_t>(rank)] =
          route_.latency.seconds() *
          (inter ? plan_.latency_scale_inter : plan_.latency_scale_intra);
    }
    return true;
  }

  // Puts a message of `rank` on the links of the route; its rate where none of them is full.
  Bandwidth Pass(int32_t rank) {
    Bandwidth rate;
    for (const LinkId id : route_.links) {
      const Bandwidth capacity = topology_.link_rate(id);
      rate = rate == Bandwidth() ? capacity : std::min(rate, capacity);
    }
    for (const LinkId id : route_.links) {
      Link& link = links_[id];
      if (link.users == 0) {
        link.capacity = topology_.link_rate(id);
        link.slowest = link.fastest = rate;
      }
      if (link.last != rank) ++link.users;
      link.last = rank;
      link.slowest = std::min(link.slowest, rate);
      link.fastest = std::max(link.fastest, rate);
    }
    return rate;
  }

  // Whether every link has room for a message of each rank that ever passes it. Shares of flows of
  // one rate are exact; a rank's own messages follow one another.
  bool NoneIsFull() const {
    return std::ranges::all_of(links_, [](const auto& item) {
      const Link& link = item.second;
      if (link.users == 1) return true;
      const Bandwidth room = link.capacity / link.users;
      return link.slowest == link.fastest ? room >= link.fastest : room >= link.fastest * kMargin;
    });
  }

  const Topology& topology_;
  const TransferPlan& plan_;
  const CollectiveSchedule& schedule_;
  size_t ranks_;
  std::vector<Step> steps_;      // the different ones
  std::vector<size_t> step_of_;  // of every step, the one in steps_
  absl::flat_hash_map<LinkId, Link> links_;
  std::vector<Send> sends_;
  Route route_;
};

}  // namespace

absl::StatusOr<std::optional<RealSeconds>> UnsharedDuration(const Topology& topology,
                                                            const TransferPlan& plan,
                                                            const FlowProgress& progress) {
  Unshared run(topology, plan);
  if (!run.Prepare()) return std::nullopt;
  return run.Run(progress);
}

}  // namespace foretrace
