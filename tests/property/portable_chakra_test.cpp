// Exported recordings come to an end in a simulator that begins whatever it may, one communication
// of a rank at a time.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "simulator/exporters/chakra/portability.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

int64_t Draw(int64_t begin, int64_t end) { return *rc::gen::inRange<int64_t>(begin, end); }

// Pairs, every second rank and all of them, as tensor and data parallelism have them, on a stream
// each. Members come when their stream is free and later, and end together.
TraceStore DrawJob(int32_t ranks, bool declared) {
  JobScript job(ranks);
  struct Kind {
    std::string name;
    std::vector<int32_t> members;
    int stream;
  };
  std::vector<Kind> kinds;
  for (int32_t r = 0; r < ranks; r += 2) kinds.push_back({"t" + std::to_string(r), {r, r + 1}, 20});
  for (int32_t first = 0; first < 2; ++first) {
    Kind kind{"d" + std::to_string(first), {}, 24};
    for (int32_t r = first; r < ranks; r += 2) kind.members.push_back(r);
    kinds.push_back(kind);
  }
  kinds.push_back({"w", {}, 28});
  for (int32_t r = 0; r < ranks; ++r) kinds.back().members.push_back(r);
  for (int32_t r = 0; r < ranks; ++r) {
    job.rank(static_cast<size_t>(r)).Kernel("first", {0, 1}, 7, {2, 3});
  }
  if (declared) {
    for (int32_t r = 0; r < ranks; ++r) {
      for (const Kind& kind : kinds)
        job.rank(static_cast<size_t>(r)).Group(kind.name, kind.members);
    }
  }
  std::vector<std::array<double, 3>> free(static_cast<size_t>(ranks), {100, 100, 100});
  const int64_t count = Draw(1, 30);
  for (int64_t k = 0; k < count; ++k) {
    const Kind& kind = kinds[static_cast<size_t>(Draw(0, static_cast<int64_t>(kinds.size())))];
    const auto which = static_cast<size_t>((kind.stream - 20) / 4);
    std::vector<double> starts;
    double last = 0;
    for (const int32_t m : kind.members) {
      starts.push_back(free[static_cast<size_t>(m)][which] + static_cast<double>(Draw(1, 300)));
      last = std::max(last, starts.back());
    }
    const double end = last + static_cast<double>(Draw(5, 50));
    for (size_t i = 0; i < kind.members.size(); ++i) {
      const auto m = static_cast<size_t>(kind.members[i]);
      job.rank(m).Collective("c" + std::to_string(k), CollectiveOp::kAllGather,
                             declared ? kind.name : "", {starts[i] - 1, starts[i] - 0.5},
                             kind.stream, {starts[i], end}, Draw(1, 1000));
      free[m][which] = end + 1;
    }
  }
  return job.Build();
}

TEST(PortableChakra, DeclaredGroupsMeetInOneOrder) {
  const bool ok = rc::check([] {
    const TraceStore store = DrawJob(static_cast<int32_t>(2 * Draw(1, 4)), true);
    const CommView view = ViewCommunication(store);
    RC_ASSERT(view.unmatched_because.empty());
    RC_ASSERT(view.contradictory == 0);
    const auto found = CheckPortability(store, view);
    RC_ASSERT(found.ok());
    for (const std::string& problem : found->problems) RC_LOG() << problem;
    RC_ASSERT(found->ok());
    RC_ASSERT(found->never_run == 0);
    RC_ASSERT(found->unordered == 0);
  });
  EXPECT_TRUE(ok);
}

// What is found of undeclared groups may be wrong; the files run all the same.
TEST(PortableChakra, InferredGroupsRunToTheirEnd) {
  const bool ok = rc::check([] {
    const TraceStore store = DrawJob(4, false);
    const CommView view = ViewCommunication(store);
    RC_PRE(view.unmatched_because.empty());
    const auto found = CheckPortability(store, view);
    RC_ASSERT(found.ok());
    for (const std::string& problem : found->problems) RC_LOG() << problem;
    RC_ASSERT(found->never_run == 0 || view.contradictory > 0);
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace foretrace
