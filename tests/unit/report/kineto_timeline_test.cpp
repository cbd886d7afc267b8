// The fields by which tools read a profile. HTA (f4d0062): rows need dur and cat; device work is
// what has args.stream, matched to its launch (cudaLaunchKernel, ...) by args.correlation; kernels
// are communication by "ncclKernel" or "ncclDevKernel" in their names; steps are "ProfilerStep";
// the rank is distributedInfo.rank.
#include "simulator/report/kineto_timeline.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "tests/support/temp_folder.h"
#include "tests/unit/report/scenario.h"

namespace foretrace {
namespace {

class KinetoTimelineTest : public testing::Test {
 protected:
  void Write(const Scenario& s, RankIndex rank, const KinetoTimelineOptions& options) {
    path_ = folder_.path() + "/kineto.json";
    TraceEventWriter writer(path_, KinetoTail(*s.store, s.store->ranks()[rank]));
    WriteKinetoTimeline(*s.table, rank, options, writer);
    ASSERT_TRUE(writer.Close().ok());
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_TRUE(std::regex_search(text.str(), std::regex("\"rank\":\\s+\\d+")));
    document_.Parse(text.str().c_str());
    ASSERT_FALSE(document_.HasParseError());
  }

  // By the beginning of its name.
  const rapidjson::Value& Event(std::string_view name) const {
    for (const auto& e : document_["traceEvents"].GetArray()) {
      if (std::string_view(e["ph"].GetString()) != "X") continue;
      if (std::string_view(e["name"].GetString()).starts_with(name)) return e;
    }
    ADD_FAILURE() << "no event " << name;
    return document_;
  }

  const TempFolder folder_;
  std::string path_;
  rapidjson::Document document_;
};

TEST_F(KinetoTimelineTest, HasTheFieldsThatToolsRead) {
  const Scenario s = MakeScenario();
  const std::vector<std::vector<IterationWindow>> windows(2, s.windows);
  KinetoTimelineOptions options;
  options.windows = windows;
  Write(s, 0, options);
  EXPECT_TRUE(document_.HasMember("foretracePrediction"));
  EXPECT_FALSE(document_.HasMember("displayTimeUnit"));
  EXPECT_EQ(document_["distributedInfo"]["rank"].GetInt(), 0);
  EXPECT_EQ(document_["distributedInfo"]["world_size"].GetInt(), 2);
  EXPECT_TRUE(document_["deviceProperties"].IsArray());

  const auto& kernel = Event(Scenario::kGemm);
  EXPECT_STREQ(kernel["cat"].GetString(), "kernel");
  EXPECT_DOUBLE_EQ(kernel["dur"].GetDouble(), 20);
  EXPECT_EQ(kernel["args"]["stream"].GetInt(), 7);
  EXPECT_EQ(kernel["tid"].GetInt(), 7);
  EXPECT_EQ(kernel["pid"].GetInt(), kernel["args"]["device"].GetInt());

  const auto& reduce = Event("nccl");
  EXPECT_STREQ(reduce["cat"].GetString(), "kernel");
  EXPECT_NE(std::string(reduce["name"].GetString()).find("Kernel"), std::string::npos);
  EXPECT_EQ(reduce["args"]["stream"].GetInt(), 20);
  EXPECT_DOUBLE_EQ(reduce["args"]["waited us"].GetDouble(), 10);  // from 25 to 35

  const auto& step = Event("ProfilerStep#5");
  EXPECT_STREQ(step["cat"].GetString(), "user_annotation");
  EXPECT_DOUBLE_EQ(step["dur"].GetDouble(), 60);
}

TEST_F(KinetoTimelineTest, WorkAndItsCallShareACorrelation) {
  const Scenario s = MakeScenario();
  Write(s, 0, {});
  std::map<int64_t, int> calls, work;
  for (const auto& e : document_["traceEvents"].GetArray()) {
    if (std::string_view(e["ph"].GetString()) != "X" || !e.HasMember("args")) continue;
    if (!e["args"].HasMember("correlation")) continue;
    const bool call = std::string_view(e["cat"].GetString()) == "cuda_runtime";
    EXPECT_EQ(e["args"].HasMember("stream"), !call);
    ++(call ? calls : work)[e["args"]["correlation"].GetInt64()];
  }
  EXPECT_EQ(work.size(), 3u);  // k1, k2, the all-reduce
  for (const auto& [correlation, count] : work) {
    EXPECT_EQ(count, 1);
    EXPECT_EQ(calls[correlation], 1) << correlation;
  }
}

TEST_F(KinetoTimelineTest, StepsCanBeLeftOut) {
  const Scenario s = MakeScenario();
  const std::vector<std::vector<IterationWindow>> windows(2, s.windows);
  KinetoTimelineOptions options;
  options.windows = windows;
  options.steps = {6};
  Write(s, 0, options);
  ASSERT_FALSE(document_["traceEvents"].GetArray().Empty());
  for (const auto& e : document_["traceEvents"].GetArray()) EXPECT_STREQ(e["ph"].GetString(), "M");
}

// Two receives of a symbolic trace wait side by side on one lane; readers take a stream for a
// queue.
TEST_F(KinetoTimelineTest, WorkThatOverlapsGoesToStreamsOfItsOwn) {
  RankInfo info;
  info.has_times = false;
  RankTraceBuilder b(info);
  const LaneIndex lane = b.AddLane(Lane::Kind::kStream, 20);
  for (const char* name : {"recv 0", "recv 1", "recv 2"}) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = NodeKind::kRecv;
    spec.name = name;
    spec.lane = lane;
    b.AddNode(spec);
  }
  auto built = b.Build({});
  ASSERT_TRUE(built.ok());
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  ranks.emplace_back(std::move(built->trace), std::move(built->strings));
  Scenario s;
  s.store = std::make_unique<TraceStore>(*TraceStore::Assemble(std::move(ranks), Diagnostics()));
  s.table = std::make_unique<EventTable>(*s.store);
  // [0,30), [0,50), and [30,40) when the first stream is free again.
  const std::pair<int64_t, int64_t> times[] = {{0, 30}, {0, 50}, {30, 40}};
  for (uint32_t i = 0; i < 3; ++i) {
    NodeEvent event;
    event.node = {0, NodeIndex(i)};
    event.lane = lane;
    event.start = event.active_start = Us(times[i].first);
    event.end = Us(times[i].second);
    s.table->OnNode(event);
  }
  Write(s, 0, {});
  const int first = Event("ncclDevKernel_SendRecv recv 0")["args"]["stream"].GetInt();
  const int second = Event("ncclDevKernel_SendRecv recv 1")["args"]["stream"].GetInt();
  EXPECT_EQ(first, 20);
  EXPECT_NE(second, 20);
  EXPECT_EQ(Event("ncclDevKernel_SendRecv recv 1")["tid"].GetInt(), second);
  EXPECT_EQ(Event("ncclDevKernel_SendRecv recv 2")["args"]["stream"].GetInt(), 20);
}

}  // namespace
}  // namespace foretrace
