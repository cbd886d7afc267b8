#include "simulator/importers/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "simulator/importers/rank_names.h"
#include "tests/support/archives.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Trace(int64_t ts, const std::string& head = "") {
  return "{" + head +
         R"("traceEvents":[{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":)" +
         std::to_string(ts) + R"(,"dur":5,"args":{"External id":1}}]})";
}
std::string Ranked(int rank, int64_t ts = 1000) {
  return Trace(ts, R"("distributedInfo":{"rank":)" + std::to_string(rank) + "},");
}
std::vector<int> Ranks(const TraceStore& store) {
  std::vector<int> ranks;
  for (const RankTrace& rank : store.ranks()) ranks.push_back(rank.info().rank);
  return ranks;
}
std::string ErrorOf(const std::vector<std::string>& paths, const ImportOptions& options = {}) {
  const auto store = ImportTraces(paths, options);
  EXPECT_FALSE(store.ok());
  return std::string(store.status().message());
}

TEST(RankFromFileName, KnowsCommonNames) {
  const std::pair<const char*, std::optional<int>> kNames[] = {
      {"rank3.json", 3},
      {"rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", 0},
      {"worker7_step_12.1694128201553.pt.trace.json", 7},
      {"resnet50_num_workers_0.worker4.1623143089861.pt.trace.json.gz", 4},
      {"dlrm_eg_5.json", 5},
      {"host_1.json.gz", 1},
      {"llama.13.et", 13},
      {"chakra.0.et", 0},
      {"trace_7.json.zst", 7},
      {"12.json", 12},
      {"hf_GPT2_et.json", std::nullopt},
      {"resnet_2gpu_et.json.gz", std::nullopt},
      {"host.1694128201553.pt.trace.json", std::nullopt},  // a time, not a rank
      {"control.json.gz", std::nullopt},
      {"1.0.2-chakra.0.0.4.json", std::nullopt},  // a version, not a rank
      {"1.0.3-chakra.0.0.4", std::nullopt},
      {"llama_dp4_tp4.3.et", 3},
  };
  for (const auto& [name, rank] : kNames) EXPECT_EQ(RankFromFileName(name), rank) << name;
}

TEST(ImportTraces, TheNumberOfTheOneFolderIsNoRank) {
  const TempFolder folder;
  const auto ranks_of = [&](const std::vector<std::string>& paths) {
    const auto store = ImportTraces(paths, {});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? Ranks(*store) : std::vector<int32_t>();
  };
  const std::string dated = folder.Write("run_2024/trace.json", Trace(1000));
  EXPECT_THAT(ranks_of({dated}), ElementsAre(0));
  EXPECT_THAT(ranks_of({folder.Write("job/rank3/trace.json", Trace(1000))}), ElementsAre(3));
  const std::string first = folder.Write("jobs/run_4/trace.json", Trace(1000));
  EXPECT_THAT(ranks_of({first, folder.Write("jobs/run_5/trace.json", Trace(2000))}),
              ElementsAre(4, 5));
}

// Profiles are named after models, dates and jobs; alone and without communication, one of them is
// a job of one rank, which fits on any platform.
TEST(ImportTraces, TheNumberOfAProfileThatCommunicatesWithNoneIsNoRank) {
  const TempFolder folder;
  const auto ranks_of = [&](const std::vector<std::string>& paths) {
    const auto store = ImportTraces(paths, {});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? Ranks(*store) : std::vector<int32_t>();
  };
  const std::string first = folder.Write("a/bert__1016001.json", Trace(1000));
  EXPECT_THAT(ranks_of({first}), ElementsAre(0));
  EXPECT_THAT(ranks_of({first, folder.Write("a/bert__1016002.json", Trace(1000))}),
              ElementsAre(1016001, 1016002));
  EXPECT_THAT(ranks_of({folder.Write("b/bert_rank3.json", Trace(1000))}), ElementsAre(3));
}

// Chakra traces are built one by one, before it is known in how many folders they lie.
TEST(ImportTraces, TheNumberOfTheOneFolderIsNoRankOfWholeTraces) {
  const TempFolder folder;
  const std::string graph =
      R"({"workload_name": "w", "workload_graph": [{"Id": 1, "Name": "op", "NodeType": 4}]})";
  const auto one = ImportTraces({folder.Write("run_2024/graph.json", graph)}, {});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(Ranks(*one), ElementsAre(0));
  EXPECT_EQ(one->world_size(), 1);
  const auto two = ImportTraces(
      {folder.Write("jobs/run_4/graph.json", graph), folder.Write("jobs/run_5/graph.json", graph)},
      {});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_THAT(Ranks(*two), ElementsAre(4, 5));
  const auto named = ImportTraces({folder.Write("job/rank3/graph.json", graph)}, {});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(Ranks(*named), ElementsAre(3));
}

TEST(ImportTraces, ReadsNoFileTwice) {
  const TempFolder folder;
  const auto error = [](const std::vector<std::string>& paths) {
    return std::string(ImportTraces(paths, {}).status().message());
  };
  const std::string tar = folder.path() + "/set.tar";
  WriteTar(tar, {{"rank0.json", Trace(1)}, {"rank0.json", Trace(2)}}, Compression::kNone);
  EXPECT_THAT(error({tar}), HasSubstr("rank0.json: twice in the archive; remove one"));
  const std::string file = folder.Write("rank0.json", Trace(1));
  EXPECT_THAT(error({file, file}), HasSubstr("rank0.json: given twice; give it once"));
}

TEST(ImportTraces, TakesFilesFoldersAndTars) {
  const TempFolder folder;
  const std::string a = folder.Write("set/b/rank1.json", Trace(1000));
  const std::string b = folder.Write("set/a/rank0.json", Trace(2000));
  folder.Write("set/README.md", "not a trace");
  folder.Write("set/notes.yaml", "x: 1");
  folder.Write("set/groups.json", R"({"1": [0, 1]})");
  folder.Write("set/.hidden", "no");
  for (const auto& paths :
       std::vector<std::vector<std::string>>{{a, b}, {folder.path() + "/set"}}) {
    const auto store = ImportTraces(paths, {});
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_THAT(Ranks(*store), ElementsAre(0, 1));
  }
  const std::string tar = folder.path() + "/set.tar.xz";
  WriteTar(tar, {{"x/rank1.json", Trace(1)}, {"x/rank0.json", Trace(2)}, {"x/README", "hello"}},
           Compression::kXz);
  const auto store = ImportTraces({tar}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Ranks(*store), ElementsAre(0, 1));
}

TEST(ImportTraces, KeepsTheSkewBetweenRanks) {
  const TempFolder folder;
  const auto store = ImportTraces({folder.Write("rank0.json", Trace(1'694'128'201'426'600)),
                                   folder.Write("rank1.json", Trace(1'694'128'201'426'550))},
                                  {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->ranks()[0].start(NodeIndex(0)), SimTime::FromNs(50'000));
  EXPECT_EQ(store->ranks()[1].start(NodeIndex(0)), SimTime());
  // Clocks a year apart are not one clock.
  const auto apart = ImportTraces({folder.Write("rank0.json", Trace(1'694'128'201'426'600)),
                                   folder.Write("rank1.json", Trace(1'662'592'201'426'550))},
                                  {});
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->ranks()[0].start(NodeIndex(0)), SimTime());
  EXPECT_EQ(apart->ranks()[1].start(NodeIndex(0)), SimTime());
  EXPECT_EQ(apart->diagnostics().Count(Repair::kUnrelatedClocks), 1);
}

TEST(ImportTraces, IsTheSameForAnyNumberOfJobs) {
  const TempFolder folder;
  for (int i = 0; i < 12; ++i) {
    folder.Write("rank" + std::to_string(i) + ".json", Trace(1000 + 7 * i % 5));
  }
  std::atomic<int> calls{0};
  ImportOptions options;
  options.progress = [&calls](int, int total) {
    EXPECT_EQ(total, 12);
    ++calls;
  };
  const auto one = ImportTraces({folder.path()}, options);
  EXPECT_EQ(calls, 12);
  options.jobs = 4;
  const auto four = ImportTraces({folder.path()}, options);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(Ranks(*one), Ranks(*four));
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(one->ranks()[i].start(NodeIndex(0)), four->ranks()[i].start(NodeIndex(0)));
    EXPECT_EQ(one->ranks()[i].info().source, four->ranks()[i].info().source);
  }
}

TEST(ImportTraces, SaysWhatIsWrongInOneLine) {
  const TempFolder folder;
  const std::string a = folder.Write("a.json", Ranked(3));
  const std::string b = folder.Write("b.json", Ranked(3));
  EXPECT_EQ(ErrorOf({a, b}),
            "two profiles for rank 3: " + a + " and " + b + "; remove one of them");
  const std::string c = folder.Write("c.json", Trace(1));
  const std::string d = folder.Write("d.json", Trace(2));
  EXPECT_EQ(ErrorOf({c, d}), c + ": cannot tell its rank: the file does not say and its name has "
                                 "no number; name it like rank3.json");
  // The number of a folder that holds both is the rank of neither.
  const std::string e = folder.Write("job_et49/e.json", Trace(1));
  EXPECT_EQ(ErrorOf({e, folder.Write("job_et49/f.json", Trace(2))}),
            e + ": cannot tell its rank: the file does not say and its name has no number; name it "
                "like rank3.json");
  EXPECT_EQ(ErrorOf({folder.path() + "/none"}), folder.path() + "/none: no such file or folder");
  std::filesystem::create_directory(folder.path() + "/empty");
  EXPECT_EQ(ErrorOf({folder.path() + "/empty"}),
            folder.path() + "/empty: the folder holds no traces");
  EXPECT_THAT(
      ErrorOf({folder.Write("side.json", R"({"1": [0, 1]})")}),
      HasSubstr(
          "side.json: not a trace of a known format (kineto, pytorch_et, chakra_json, chakra)"));
  EXPECT_THAT(ErrorOf({folder.Write("config.json", R"({"model_type": "llama"})")}),
              HasSubstr("config.json: sizes of a model, not a recording; search, generate and "
                        "serve predict it"));
  EXPECT_EQ(ErrorOf({}), "no traces given");
  // --ignore is of files, not of members.
  std::filesystem::create_directory(folder.path() + "/saved");
  WriteZip(folder.path() + "/saved/checkpoint.pt", {{"archive/data.pkl", "\x80\x02}q."}});
  EXPECT_THAT(ErrorOf({folder.path() + "/saved"}),
              HasSubstr("in a folder, --ignore 'checkpoint.pt' passes it over"));
}

// The execution trace and the archive that come first end in the middle, which is found where they
// are read: what is no trace is found before.
TEST(ImportTraces, WhatIsNoTraceIsRefusedBeforeAnyIsRead) {
  const TempFolder folder;
  folder.Write("a_rank0.json", R"({"schema":"1.0.4-chakra.0.0.4","pid":1,"nodes":[{"id":1,)");
  WriteZip(folder.path() + "/b_rank1.zip", {{"rank1.json", Ranked(1).substr(0, 60)}});
  folder.Write("z.pickle", "\x80\x04}q.");
  EXPECT_THAT(ErrorOf({folder.path()}),
              HasSubstr("z.pickle: not a trace of a known format (kineto, pytorch_et, chakra_json, "
                        "chakra), or damaged at its start; in a folder, --ignore 'z.pickle'"));
  ImportOptions without;
  without.ignore = {"*.pickle"};
  EXPECT_THAT(ErrorOf({folder.path()}, without), HasSubstr("a_rank0.json"));
}

// A table of 8,192 groups of two is larger than what is looked at of a file to tell its format.
TEST(ImportTraces, LargeTablesOfProcessGroupsLieBesideTraces) {
  const TempFolder folder;
  folder.Write("rank0.json", Ranked(0));
  std::string table;
  for (int group = 0; group < 8192; ++group) {
    table += (group == 0 ? "{" : ", ") + ("\"" + std::to_string(group) + "\": [0, 1]");
  }
  folder.Write("groups.json", table + "}");
  const auto store = ImportTraces({folder.path()}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Ranks(*store), ElementsAre(0));
}

TEST(ImportTraces, StrictRefusesWhatNeedsRepair) {
  const TempFolder folder;
  const std::string path = folder.Write(
      "rank0.json",
      R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,)"
      R"("args":{"stream":7,"correlation":3}}]})");
  EXPECT_TRUE(ImportTraces({path}, {}).ok());
  ImportOptions strict;
  strict.strict = true;
  EXPECT_EQ(ErrorOf({path}, strict),
            "--strict: the input needs repairs: missing_launch (1, first: " + path +
                ": correlation 3 (k))");
}

TEST(ImportTraces, TakesProcessGroupsFromTheUser) {
  const TempFolder folder;
  const std::string trace =
      R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":1,"dur":5},)"
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":9,"dur":3,)"
      R"("args":{"stream":7,"device":0}}]})";
  const std::string a = folder.Write("rank0.json", trace);
  const std::string b = folder.Write("rank1.json", trace);
  ImportOptions options;
  options.process_groups_file =
      folder.Write("g.yaml", "groups:\n  - {name: stream 7, ranks: [1, 0], description: dp}\n");
  const auto store = ImportTraces({a, b}, options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(store->process_groups().named("stream 7").front().ranks, ElementsAre(1, 0));
  EXPECT_EQ(store->process_groups().named("stream 7").front().description, "dp");

  options.process_groups_file = folder.Write("g.yaml",
                                             "exchanges: [[1, 0]]\ngroups: [{name: stream 7, "
                                             "ranks: [0]}, {name: stream 7, ranks: [1]}]\n");
  const auto several = ImportTraces({a, b}, options);
  ASSERT_TRUE(several.ok()) << several.status();
  EXPECT_THAT(several->process_groups().named("exchange").front().ranks, ElementsAre(1, 0));
  EXPECT_THAT(several->process_groups().named("stream 7").back().ranks, ElementsAre(1));

  const auto error = [&](const std::string& yaml) {
    options.process_groups_file = folder.Write("g.yaml", yaml);
    return ErrorOf({a, b}, options);
  };
  EXPECT_EQ(error("x: 1\n"), options.process_groups_file + ": has no list \"groups\"");
  EXPECT_THAT(error("groups:\n  - {name: a}\n"),
              HasSubstr("g.yaml:2: a group has no list of ranks"));
  EXPECT_THAT(error("groups:\n  - {name: a, ranks: [0, 0]}\n"), HasSubstr("stands twice"));
  EXPECT_THAT(error("groups:\n  - {name: a, ranks: [x]}\n"), HasSubstr("g.yaml:2: "));
  EXPECT_THAT(error("groups: [\n"), HasSubstr("g.yaml:"));
  EXPECT_THAT(error("exchanges: [[0]]\n"), HasSubstr("g.yaml:1: an exchange is a list"));
  EXPECT_THAT(error("groups:\n  - {name: nothing, ranks: [0, 1]}\n"),
              HasSubstr("group \"nothing\" would change nothing"));
  EXPECT_THAT(error("groups:\n  - {name: stream 7, ranks: [5]}\n"),
              HasSubstr("the job has 2 ranks"));
}

}  // namespace
}  // namespace foretrace
