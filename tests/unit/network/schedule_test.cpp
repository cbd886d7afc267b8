// Every algorithm: data ends where it should, and its time on an idle non-blocking switch is the
// closed form.

#include "simulator/network/collective/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "simulator/network/communicator.h"
#include "simulator/network/fluid/run_alone.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

struct Case {
  Algorithm algorithm;
  CollectiveOp op;
  bool powers_only;        // the algorithm exists for powers of two only
  bool exact_powers_only;  // the closed form is exact for powers of two only
};

using A = Algorithm;
using Op = CollectiveOp;
const Case kCases[] = {
    {A::kRing, Op::kAllReduce, false, false},
    {A::kRing, Op::kAllGather, false, false},
    {A::kRing, Op::kReduceScatter, false, false},
    {A::kRing, Op::kBroadcast, false, false},
    {A::kRing, Op::kReduce, false, false},
    {A::kBidirectionalRing, Op::kAllReduce, false, false},
    {A::kBidirectionalRing, Op::kAllGather, false, false},
    {A::kBidirectionalRing, Op::kReduceScatter, false, false},
    {A::kHalvingDoubling, Op::kAllReduce, false, true},
    {A::kHalvingDoubling, Op::kAllGather, true, false},
    {A::kHalvingDoubling, Op::kReduceScatter, true, false},
    {A::kRecursiveDoubling, Op::kAllReduce, false, true},
    {A::kRecursiveDoubling, Op::kAllGather, true, false},
    {A::kDirect, Op::kAllReduce, false, false},
    {A::kDirect, Op::kAllGather, false, false},
    {A::kDirect, Op::kReduceScatter, false, false},
    {A::kDirect, Op::kAllToAll, false, false},
    {A::kDirect, Op::kBroadcast, false, false},
    {A::kDirect, Op::kReduce, false, false},
    {A::kDirect, Op::kGather, false, false},
    {A::kDirect, Op::kScatter, false, false},
    {A::kPairwise, Op::kAllToAll, false, false},
    {A::kPairwise, Op::kReduceScatter, false, false},
    {A::kBinomial, Op::kBroadcast, false, false},
    {A::kBinomial, Op::kReduce, false, true},
    {A::kBinomial, Op::kGather, false, true},
    {A::kBinomial, Op::kScatter, false, false},
    {A::kDissemination, Op::kBarrier, false, false},
    {A::kDirect, Op::kSendRecv, false, false},
};

// Contributions to each block that a rank holds.
using Contents = std::vector<std::map<int32_t, std::set<int32_t>>>;

Contents Initial(const CollectiveSchedule& s, CollectiveOp op, int32_t n) {
  Contents held(static_cast<size_t>(n));
  for (int32_t r = 0; r < n; ++r) {
    auto& mine = held[static_cast<size_t>(r)];
    for (int32_t b = 0; b < s.blocks(); ++b) {
      if (op == Op::kAllReduce || op == Op::kReduceScatter || op == Op::kReduce ||
          op == Op::kBarrier) {
        mine[b] = {r};
      } else if (op == Op::kBroadcast || op == Op::kScatter) {
        if (r == 0) mine[b] = {0};
      } else if (op == Op::kAllToAll) {
        if (b / n == r) mine[b] = {r};
      } else if (s.BlockOf(r) == b) {
        mine[b] = {r};
      }
    }
  }
  return held;
}

// Plays the schedule rank by rank under its own rule, with messages delivered as soon as they are
// sent but read only when due, and checks that no contribution is combined twice.
void CheckData(const CollectiveSchedule& s, CollectiveOp op) {
  const int32_t n = s.ranks();
  for (int32_t lane = 0; lane < s.lanes(); ++lane) {
    Contents held = Initial(s, op, n);
    for (int32_t step = 0; step < s.steps(); ++step) {
      std::vector<int32_t> received(static_cast<size_t>(n), 0);
      for (int32_t r = 0; r < n; ++r) {
        std::vector<Send> sends;
        s.Sends(r, lane, step, sends);
        for (const Send& send : sends) ++received[static_cast<size_t>(send.to)];
        // A rank that sends or receives in a step is not skipped over.
        const bool acts = !sends.empty() || s.Receives(r, lane, step) > 0;
        if (acts) {
          ASSERT_EQ(s.NextStep(r, lane, step), step);
        }
        ASSERT_GE(s.NextStep(r, lane, step), step);
      }
      for (int32_t round = 0; round < s.rounds(lane, step); ++round) {
        const Contents before = held;
        for (int32_t r = 0; r < n; ++r) {
          std::vector<Send> sends;
          s.Sends(r, lane, step, sends);
          for (size_t k = 0; k < sends.size(); ++k) {
            ASSERT_NE(sends[k].to, r);
            std::vector<int32_t> blocks;
            s.SentBlocks(r, lane, step, static_cast<int32_t>(k), round, blocks);
            for (int32_t b : blocks) {
              const auto& source = before[static_cast<size_t>(r)];
              ASSERT_TRUE(source.contains(b)) << "rank " << r << " lacks block " << b;
              auto& target = held[static_cast<size_t>(sends[k].to)][b];
              if (!sends[k].reduce) {
                target = source.at(b);
                continue;
              }
              for (int32_t contribution : source.at(b)) {
                const bool fresh = target.insert(contribution).second;
                ASSERT_TRUE(fresh || op == Op::kBarrier) << "counted twice";
              }
            }
          }
        }
      }
      for (int32_t r = 0; r < n; ++r) {
        ASSERT_EQ(received[static_cast<size_t>(r)], s.Receives(r, lane, step));
      }
    }
    std::set<int32_t> everyone;
    for (int32_t r = 0; r < n; ++r) everyone.insert(r);
    for (int32_t r = 0; r < n; ++r) {
      const auto& mine = held[static_cast<size_t>(r)];
      for (int32_t b = 0; b < s.blocks(); ++b) {
        const auto holds = [&](const std::set<int32_t>& what) {
          return mine.contains(b) && mine.at(b) == what;
        };
        if (op == Op::kAllReduce || op == Op::kBarrier || (op == Op::kReduce && r == 0) ||
            (op == Op::kReduceScatter && s.BlockOf(r) == b)) {
          ASSERT_TRUE(holds(everyone)) << "rank " << r << " block " << b;
        } else if (op == Op::kBroadcast || (op == Op::kScatter && s.BlockOf(r) == b)) {
          ASSERT_TRUE(holds({0}));
        } else if (op == Op::kAllToAll && b % n == r) {
          ASSERT_TRUE(holds({b / n}));
        } else if (op == Op::kSendRecv && s.steps() > 0 && b == (r + n - 1) % n) {
          ASSERT_TRUE(holds({b}));
        } else if (op == Op::kAllGather || (op == Op::kGather && r == 0)) {
          ASSERT_TRUE(mine.contains(b) && mine.at(b).size() == 1);
          ASSERT_EQ(s.BlockOf(*mine.at(b).begin()), b);
        }
      }
    }
  }
}

constexpr RealSeconds kAlpha(3e-6);
constexpr Bandwidth kBandwidth = Bandwidth::GBps(40);

// A switch in one node: two hops of half the latency each.
Topology Switch(int32_t n) {
  const auto spec = ParsePlatform(
      fmt::format(
          "name: s\nlinks:\n  l: {{class: nvlink, bandwidth_GBps: 40, latency_us: 1.5, "
          "source: test}}\nnode: {{devices: {}, interconnect: {{kind: switch, link: l}}}}\n",
          std::max(2, n)),
      "s");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *Topology::Create(*spec);
}

// Seconds.
double Fluid(const Topology& t, std::unique_ptr<CollectiveSchedule> s, bool collapse) {
  TransferPlan plan;
  plan.schedule = std::move(s);
  for (int32_t r = 0; r < plan.schedule->ranks(); ++r) plan.devices.push_back(r);
  plan.launch = FillTime(*plan.schedule, plan.devices, t, {});
  const auto run = RunAlone(t, plan, collapse);
  EXPECT_TRUE(run.ok()) << run.status();
  return run->time.seconds();
}

// 2 x 255 steps of 256 messages, each launched, drained and delivered.
TEST(RunAlone, TellsHowFarItIsAndCanBeInterrupted) {
  const Topology topology = Switch(256);
  CollectiveRequest request;
  request.op = Op::kAllReduce;
  request.ranks = 256;
  request.bytes = RealBytes(1e9);
  request.dimensions = {1, 256};
  auto schedule = MakeSchedule(Algorithm::kHierarchical, request);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  TransferPlan plan;
  plan.schedule = *std::move(schedule);
  for (int32_t r = 0; r < 256; ++r) plan.devices.push_back(r);
  std::vector<int64_t> told;
  const auto run = RunAlone(topology, plan, false, [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 2 * 255 * 256);
    told.push_back(done);
    return true;
  });
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_GT(told.size(), 2u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_LE(told.back(), run->flows);
  const auto cut = RunAlone(topology, plan, false, [](int64_t, int64_t) { return false; });
  EXPECT_TRUE(absl::IsCancelled(cut.status()));
}

bool PowerOfTwo(int32_t n) { return (n & (n - 1)) == 0; }

TEST(Schedules, MoveDataAndMatchTheClosedForm) {
  for (const Case& c : kCases) {
    for (int32_t n : {1, 2, 3, 4, 5, 7, 8, 13, 16, 32}) {
      if (c.powers_only && !PowerOfTwo(n)) continue;
      for (int32_t chunks : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} {} n={} chunks={}", Name(c.algorithm), Name(c.op), n, chunks));
        CollectiveRequest request;
        request.op = c.op;
        request.ranks = n;
        request.bytes = RealBytes(7e6);
        request.chunks = chunks;
        auto schedule = MakeSchedule(c.algorithm, request);
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        if (n <= 16) CheckData(**schedule, c.op);
        EXPECT_EQ((*schedule)->flows(), (*schedule)->CollectiveSchedule::flows());
        const double expected = (*schedule)->ClosedForm({kAlpha, kBandwidth}).seconds();
        const double full = Fluid(Switch(n), std::move(*schedule), false);
        if (!c.exact_powers_only || PowerOfTwo(n)) {
          EXPECT_NEAR(full, expected, 1e-9 * expected);
        } else {
          EXPECT_LE(full, expected * 2);
          EXPECT_GE(full, expected / 2);
        }
        auto again = MakeSchedule(c.algorithm, request);
        EXPECT_EQ(Fluid(Switch(n), std::move(*again), true), full);  // the same bits
      }
    }
  }
}

TEST(Schedules, TreesMoveDataAndStayNearTheirEstimate) {
  for (int32_t n : {2, 3, 4, 5, 8, 13, 16, 31}) {
    for (int32_t chunks : {1, 8}) {
      SCOPED_TRACE(fmt::format("n={} chunks={}", n, chunks));
      CollectiveRequest request;
      request.op = Op::kAllReduce;
      request.ranks = n;
      request.bytes = RealBytes(64e6);
      request.chunks = chunks;
      auto schedule = MakeSchedule(A::kDoubleBinaryTree, request);
      ASSERT_TRUE(schedule.ok());
      CheckData(**schedule, Op::kAllReduce);
      const double estimate = (*schedule)->ClosedForm({kAlpha, kBandwidth}).seconds();
      const double full = Fluid(Switch(n), std::move(*schedule), false);
      EXPECT_LT(full, 2 * estimate);
      EXPECT_GT(full, estimate / 2);
      if (n == 2 && chunks == 1) {
        EXPECT_NEAR(full, estimate, 1e-9 * estimate);
      }
    }
  }
}

TEST(Schedules, HierarchicalMoveDataAndMatchTheClosedForm) {
  const std::vector<std::vector<int32_t>> shapes = {{4}, {2, 3}, {4, 2}, {2, 2, 2}, {3, 1, 4}};
  for (const auto& shape : shapes) {
    for (Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kAllToAll}) {
      for (int32_t chunks : {1, 4}) {
        CollectiveRequest request;
        request.op = op;
        request.ranks = 1;
        for (int32_t size : shape) request.ranks *= size;
        request.bytes = RealBytes(5e6);
        request.chunks = chunks;
        request.dimensions = shape;
        auto schedule = MakeSchedule(A::kHierarchical, request);
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        CheckData(**schedule, op);
        const double expected = (*schedule)->ClosedForm({kAlpha, kBandwidth}).seconds();
        const double full = Fluid(Switch(request.ranks), std::move(*schedule), false);
        if ((*MakeSchedule(A::kHierarchical, request))->lanes() == 1) {
          EXPECT_NEAR(full, expected, 1e-9 * expected) << Name(op);
        } else {
          EXPECT_LE(full, expected * chunks);
        }
      }
    }
  }
}

// Two ranks: 0 sends 8 MB, 1 sends 2 MB at 40 GB/s full duplex: the larger decides.
TEST(Schedules, UnequalAllToAll) {
  CollectiveRequest request;
  request.op = Op::kAllToAll;
  request.ranks = 2;
  request.bytes = RealBytes(8e6);
  request.split_bytes = {0, 8000000, 2000000, 0};
  for (A algorithm : {A::kDirect, A::kPairwise}) {
    auto schedule = MakeSchedule(algorithm, request);
    ASSERT_TRUE(schedule.ok());
    EXPECT_NEAR(Fluid(Switch(2), std::move(*schedule), false),
                (kAlpha + RealBytes(8e6) / kBandwidth).seconds(), 1e-12);
  }
}

// Whatever the splits, a message is as large as the blocks that it carries, and data arrives.
TEST(Schedules, UnequalAllToAllMovesEverySplit) {
  std::mt19937 random(7);
  for (A algorithm : {A::kDirect, A::kPairwise, A::kHierarchical}) {
    CollectiveRequest request;
    request.op = Op::kAllToAll;
    request.ranks = 12;
    request.dimensions = {2, 3, 2};
    for (int32_t i = 0; i < 144; ++i) {
      request.split_bytes.push_back(i % 13 == 0 ? 0 : 1 + static_cast<int64_t>(random() % 1000));
    }
    const auto schedule = MakeSchedule(algorithm, request);
    ASSERT_TRUE(schedule.ok());
    CheckData(**schedule, Op::kAllToAll);
    for (int32_t step = 0; step < (*schedule)->steps(); ++step) {
      for (int32_t r = 0; r < 12; ++r) {
        std::vector<Send> sends;
        (*schedule)->Sends(r, 0, step, sends);
        for (size_t k = 0; k < sends.size(); ++k) {
          std::vector<int32_t> blocks;
          (*schedule)->SentBlocks(r, 0, step, static_cast<int32_t>(k), 0, blocks);
          RealBytes total;
          for (int32_t b : blocks) {
            total += RealBytes(Bytes(request.split_bytes[static_cast<size_t>(b)]));
          }
          EXPECT_EQ(sends[k].bytes, total) << Name(algorithm) << " rank " << r;
        }
      }
    }
  }
}

// Two dimensions of four with links of their own, so that chunks in different dimensions overlap.
// All-reduce of 64 MB at 40 GB/s without latency: the first dimension is busy for 2 x 3/4 x 64 MB,
// 2.4 ms, the second for a quarter of that, 0.6 ms. One chunk: 3 ms. Sixteen: the first dimension
// never rests but while the first chunk is in the second one, 2.4 ms + 0.6 ms / 16.
TEST(Schedules, HierarchicalChunksOverlapAcrossDimensions) {
  const auto spec = ParsePlatform(
      "name: t\nlinks:\n  l: {class: network, bandwidth_GBps: 40, latency_us: 0, source: test}\n"
      "node: {devices: 1}\nnodes: 16\nfabric: {kind: dimensions, dimensions: [{kind: ring, size: "
      "4, link: l}, {kind: ring, size: 4, link: l}]}\n",
      "t");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const Topology topology = *Topology::Create(*spec);
  CollectiveRequest request;
  request.op = Op::kAllReduce;
  request.ranks = 16;
  request.bytes = RealBytes(64e6);
  request.dimensions = {4, 4};
  EXPECT_NEAR(Fluid(topology, *MakeSchedule(A::kHierarchical, request), false), 3e-3, 1e-12);
  request.chunks = 16;
  const double piped = Fluid(topology, *MakeSchedule(A::kHierarchical, request), false);
  EXPECT_GE(piped, 2.4e-3);
  EXPECT_LE(piped, 2.7e-3);
}

TEST(Schedules, RefuseWhatDoesNotExist) {
  CollectiveRequest request;
  request.op = Op::kAllGather;
  request.ranks = 6;
  EXPECT_FALSE(MakeSchedule(A::kHalvingDoubling, request).ok());
  EXPECT_FALSE(MakeSchedule(A::kDoubleBinaryTree, request).ok());
  request.dimensions = {4, 2};
  EXPECT_FALSE(MakeSchedule(A::kHierarchical, request).ok());
  request.ranks = 0;
  EXPECT_FALSE(MakeSchedule(A::kRing, request).ok());
  request.ranks = 2;
  request.chunks = 0;
  EXPECT_FALSE(MakeSchedule(A::kRing, request).ok());
  request.chunks = 1;
  request.op = Op::kAllToAll;
  request.split_bytes = {0, -1, 1, 0};
  EXPECT_FALSE(MakeSchedule(A::kDirect, request).ok());
  request.split_bytes = {0, 1};
  EXPECT_FALSE(MakeSchedule(A::kDirect, request).ok());
}

}  // namespace
}  // namespace foretrace
