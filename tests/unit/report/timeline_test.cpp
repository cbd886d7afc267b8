#include "simulator/report/timeline.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulator/exporters/timeline/trace_event_writer.h"
#include "simulator/report/critical_path.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/report/scenario.h"

namespace foretrace {
namespace {

class TimelineTest : public testing::Test {
 protected:
  // Writes, reads back (plain or gzip alike) and checks what every trace-event file must satisfy.
  void Write(const Scenario& s, const TimelineOptions& options, const std::string& name) {
    path_ = folder_.path() + "/" + name;
    TraceEventWriter writer(path_);
    WriteTimeline(*s.table, options, writer);
    ASSERT_TRUE(writer.Close().ok());
    gzFile file = gzopen(path_.c_str(), "rb");
    std::string text(1 << 20, '\0');
    const int size = gzread(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    ASSERT_GT(size, 0);
    text.resize(static_cast<size_t>(size));
    document_.Parse(text.c_str());
    ASSERT_FALSE(document_.HasParseError());
    CheckSchema();
  }

  void CheckSchema() {
    using Key = std::pair<int, int>;
    std::set<int> processes;
    std::set<Key> threads;
    std::map<Key, std::vector<std::pair<double, double>>> slices;
    std::map<int64_t, std::pair<int, int>> flows;
    for (const auto& e : document_["traceEvents"].GetArray()) {
      const std::string phase = e["ph"].GetString();
      const Key track(e["pid"].GetInt(), e["tid"].GetInt());
      ASSERT_TRUE(e["ts"].IsNumber());
      ASSERT_GE(e["ts"].GetDouble(), 0);
      const std::string name = e["name"].GetString();
      if (phase == "M") {
        if (name == "process_name") processes.insert(track.first);
        if (name == "thread_name") threads.insert(track);
      } else if (phase == "X") {
        EXPECT_FALSE(std::string(e["cat"].GetString()).empty());
        const double start = e["ts"].GetDouble();
        slices[track].emplace_back(start, start + e["dur"].GetDouble());
      } else if (phase == "C") {
        EXPECT_GE(e["args"]["value"].GetInt64(), 0);
      } else {
        ASSERT_TRUE(phase == "s" || phase == "f") << phase;
        auto& [starts, ends] = flows[e["id"].GetInt64()];
        ++(phase == "s" ? starts : ends);
        if (phase == "f") {
          EXPECT_STREQ(e["bp"].GetString(), "e");
        }
        bool inside = false;
        for (const auto& [from, to] : slices[track]) {
          inside |= from <= e["ts"].GetDouble() && e["ts"].GetDouble() <= to;
        }
        EXPECT_TRUE(inside) << "an arrow at " << e["ts"].GetDouble() << " outside any slice";
      }
    }
    for (const auto& [id, ends] : flows) EXPECT_EQ(ends, std::make_pair(1, 1)) << id;
    for (const auto& [track, list] : slices) {
      EXPECT_TRUE(processes.contains(track.first));
      EXPECT_TRUE(threads.contains(track));
      for (const auto& a : list) {
        for (const auto& b : list) {
          const bool crossing = a.first < b.first && b.first < a.second && a.second < b.second;
          EXPECT_FALSE(crossing) << "slices cross on " << track.first << "/" << track.second;
        }
      }
    }
  }

  struct Found {
    std::string process, thread, category;
    double start = 0, duration = 0;
    std::string group;
  };
  std::vector<Found> Slices(const std::string& name) const {
    std::map<int, std::string> processes;
    std::map<std::pair<int, int>, std::string> threads;
    for (const auto& e : document_["traceEvents"].GetArray()) {
      const std::string what = e["name"].GetString();
      if (what == "process_name") processes[e["pid"].GetInt()] = e["args"]["name"].GetString();
      if (what == "thread_name") {
        threads[{e["pid"].GetInt(), e["tid"].GetInt()}] = e["args"]["name"].GetString();
      }
    }
    std::vector<Found> found;
    for (const auto& e : document_["traceEvents"].GetArray()) {
      if (std::string(e["ph"].GetString()) != "X" || e["name"].GetString() != name) continue;
      Found f{processes.at(e["pid"].GetInt()),
              threads.at({e["pid"].GetInt(), e["tid"].GetInt()}),
              e["cat"].GetString(),
              e["ts"].GetDouble(),
              e["dur"].GetDouble(),
              ""};
      if (e.HasMember("args") && e["args"].HasMember("group")) {
        f.group = e["args"]["group"].GetString();
      }
      found.push_back(f);
    }
    return found;
  }
  int CountFlows(const std::string& name) const {
    int count = 0;
    for (const auto& e : document_["traceEvents"].GetArray()) {
      count += std::string(e["ph"].GetString()) == "s" && e["name"].GetString() == name;
    }
    return count;
  }

  const TempFolder folder_;
  std::string path_;
  rapidjson::Document document_;
};

TEST_F(TimelineTest, PredictedBesideRecorded) {
  const Scenario s = MakeScenario();
  const std::vector<std::vector<IterationWindow>> windows = {{s.windows[0]}, {s.windows[1]}};
  TimelineOptions options;
  options.windows = windows;
  options.predicted_cpu_time = [&s](RankIndex r, SimTime recorded) {
    return recorded - s.windows[r].recorded_start;
  };
  Write(s, options, "timeline.json");
  const auto gemm = Slices(Scenario::kGemm);
  ASSERT_EQ(gemm.size(), 4u);  // two ranks, predicted and recorded
  EXPECT_EQ(gemm[0].process, "rank 0");
  EXPECT_EQ(gemm[0].thread, "stream 7");
  EXPECT_EQ(gemm[0].group, "gemm_forward");
  EXPECT_DOUBLE_EQ(gemm[0].start, 5);
  EXPECT_DOUBLE_EQ(gemm[0].duration, 20);
  EXPECT_EQ(gemm[1].process, "rank 0 (recorded)");
  EXPECT_DOUBLE_EQ(gemm[1].start, 5);  // both steps begin at zero
  const auto steps = Slices("ProfilerStep#5");
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_DOUBLE_EQ(steps[0].duration, 60);
  // The all-reduce of rank 0 waits [25,35) for rank 1 and [25] for its kernel; rank 1's does not.
  const auto arrival = Slices("wait: collective_arrival");
  ASSERT_EQ(arrival.size(), 1u);
  EXPECT_DOUBLE_EQ(arrival[0].start, 25);
  EXPECT_DOUBLE_EQ(arrival[0].duration, 10);
  const auto blocked = Slices("wait: cpu_block");
  ASSERT_EQ(blocked.size(), 2u);
  EXPECT_DOUBLE_EQ(blocked[0].start, 10);
  EXPECT_DOUBLE_EQ(blocked[0].duration, 45);  // to the end of the all-reduce at 55
  EXPECT_EQ(CountFlows("launch"), 10);        // five launches, predicted and recorded
  EXPECT_EQ(CountFlows("last arrival"), 1);
}

TEST_F(TimelineTest, GzipAndRangesAroundTheirCallsWithoutAMapping) {
  const Scenario s = MakeScenario(/*synthetic=*/true);
  TimelineOptions options;
  options.recorded = false;
  Write(s, options, "timeline.json.gz");
  const auto linear = Slices("aten::linear");
  ASSERT_EQ(linear.size(), 2u);
  EXPECT_EQ(linear[0].process, "rank 0 (synthetic trace)");
  EXPECT_DOUBLE_EQ(linear[0].duration, 2);  // the launch in it
  EXPECT_TRUE(document_["otherData"].HasMember("synthetic"));
  std::FILE* file = std::fopen(path_.c_str(), "rb");
  EXPECT_EQ(std::fgetc(file), 0x1f);
  EXPECT_EQ(std::fgetc(file), 0x8b);
  std::fclose(file);
}

// Two kernels of one stream that overlap, as nodes of a CUDA graph may, and a name that needs
// escaping.
TEST_F(TimelineTest, OverlappingWorkGoesOnFurtherTracks) {
  RankTraceBuilder b(RankInfo{});
  const LaneIndex stream = b.AddLane(Lane::Kind::kStream, 7);
  for (int64_t i = 0; i < 3; ++i) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = NodeKind::kKernel;
    spec.name = "a \"quoted\"\n\xff name";
    spec.lane = stream;
    spec.start = Us(10 * i);
    spec.duration = Us(15);
    b.AddNode(spec);
  }
  auto built = b.Build({});
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  ranks.emplace_back(std::move(built->trace), std::move(built->strings));
  Scenario s;
  s.store = std::make_unique<TraceStore>(*TraceStore::Assemble(std::move(ranks), {}));
  s.table = std::make_unique<EventTable>(*s.store);
  Write(s, {}, "overlap.json");
  const auto found = Slices("a \"quoted\"\n? name");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].thread, "stream 7");
  EXPECT_EQ(found[1].thread, "stream 7 (concurrent 1)");
  EXPECT_EQ(found[2].thread, "stream 7");
}

// Work of rank 0 that is launched and has not started: the GEMM's launch ends at 4 and it starts at
// 5, the all-reduce's at 8 and it starts at 25, the element-wise kernel's at 9 and it starts at 26.
// Of what changes within the same 10 us the last value counts: 2 at 9, 0 at 26.
TEST_F(TimelineTest, LaunchQueueAndCriticalPath) {
  const Scenario s = MakeScenario();
  const CriticalPath path = ComputeCriticalPath(*s.table, Classifier(*s.store), s.windows);
  const std::vector<std::vector<IterationWindow>> windows(2, s.windows);
  ASSERT_FALSE(path.segments.empty());
  TimelineOptions options;
  options.path = &path;
  options.windows = windows;
  options.recorded = false;
  Write(s, options, "extras.json");
  std::vector<int64_t> depths, rates;
  double on_path = 0;
  for (const auto& e : document_["traceEvents"].GetArray()) {
    if (std::string_view(e["ph"].GetString()) == "C" && e["pid"].GetInt() == 1) {
      const bool queue = std::string_view(e["name"].GetString()) == "launch queue";
      (queue ? depths : rates).push_back(e["args"]["value"].GetInt64());
    }
    if (std::string_view(e["ph"].GetString()) == "X" &&
        std::string_view(e["cat"].GetString()) == "critical_path") {
      on_path += e["dur"].GetDouble();
    }
  }
  EXPECT_EQ(depths, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(rates, (std::vector<int64_t>{100, 0}));
  EXPECT_NEAR(on_path, path.total.us(), 1e-3);
}

// Sums over what a link carries at once; nothing of a rank that was not asked for.
TEST_F(TimelineTest, LinksAndMemoryAreCounters) {
  const Scenario s = MakeScenario();
  const LinkLoad links[] = {{"gpu0.up", {{Us(30), Us(40), 0.25}, {Us(35), Us(50), 0.5}}}};
  const std::vector<AllocatedMemory> memory[] = {
      {{Us(10), Bytes(3'000'000), Bytes(8'000'000)}, {Us(20), Bytes(5'000'000), Bytes(8'000'000)}},
      {}};
  TimelineOptions options;
  options.links = links;
  options.memory = memory;
  Write(s, options, ".json");
  std::vector<int64_t> link, allocated, reserved;
  for (const auto& e : document_["traceEvents"].GetArray()) {
    const std::string name = e["name"].GetString();
    if (std::string(e["ph"].GetString()) != "C") continue;
    const int64_t value = e["args"]["value"].GetInt64();
    if (name == "gpu0.up %") link.push_back(value);
    if (name == "allocated MB") allocated.push_back(value);
    if (name == "reserved MB") reserved.push_back(value);
  }
  EXPECT_EQ(link, (std::vector<int64_t>{25, 75, 50, 0}));
  EXPECT_EQ(allocated, (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(reserved, (std::vector<int64_t>{8, 8}));
}

}  // namespace
}  // namespace foretrace
