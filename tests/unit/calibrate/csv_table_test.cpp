#include "simulator/calibrate/csv_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrace {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] =
    "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n";
constexpr char kRow[] =
    "collective,all_reduce,-,p,float32,bytes=1048576;ranks=8;nodes=1;placement=node;inplace=0,"
    "73.5,0.5,3,nccl 2.29.2,lab\n";

std::string MessageFor(const std::string& text) {
  return std::string(ParseBenchmarkCsv("t.csv", text).status().message());
}

std::string RowWith(const std::string& what, const std::string& by) {
  std::string row = kRow;
  row.replace(row.find(what), what.size(), by);
  return kHeader + row;
}

TEST(BenchmarkCsv, ReadsRowsAndProvenance) {
  const auto table = ParseBenchmarkCsv(
      "t.csv",
      std::string("\xEF\xBB\xBF# source: https://example.org\n# licence: MIT\n") + kHeader + kRow);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->provenance.at("source"), "https://example.org");
  ASSERT_EQ(table->rows.size(), 1u);
  const BenchmarkRow& row = table->rows[0];
  EXPECT_EQ(row.kind, BenchmarkKind::kCollective);
  EXPECT_EQ(row.op, "all_reduce");
  EXPECT_EQ(row.shape.Int("bytes"), 1048576);
  EXPECT_EQ(row.shape.Text("placement"), "node");
  EXPECT_FALSE(row.shape.Int("placement").has_value());
  EXPECT_EQ(row.time_us, 73.5);
  EXPECT_EQ(row.repeats, 3);
  EXPECT_EQ(row.library, "nccl 2.29.2");
  EXPECT_EQ(row.line, 4);
}

TEST(BenchmarkCsv, ReadsWindowsLineEndsAndQuotes) {
  std::string row = kRow;
  row.replace(row.find("nccl 2.29.2"), 11, "\"nccl, \"\"new\"\"\"");
  row.insert(row.size() - 1, "\r");
  const auto table = ParseBenchmarkCsv("t.csv", kHeader + row);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows[0].library, "nccl, \"new\"");
  EXPECT_EQ(table->rows[0].source, "lab");
}

TEST(BenchmarkCsv, KnowsLogsOfNcclTests) {
  const std::string row = "  1048576  262144  float  sum  -1  45.10  23.25  40.69  0\n";
  for (const std::string comment : {"# nThread 1 nGpus 8\n", "#       size         count\n"}) {
    EXPECT_THAT(MessageFor(comment + row), HasSubstr("t.csv:2: a log of nccl-tests, not a table"));
  }
  EXPECT_THAT(MessageFor("# lab\n" + row), HasSubstr("t.csv:2: unknown column"));
}

TEST(BenchmarkCsv, UnknownNamesListWhatThereIs) {
  EXPECT_THAT(MessageFor(RowWith("all_reduce", "allreduce")),
              HasSubstr("t.csv:2: unknown collective 'allreduce'; there are all_reduce, "));
  const std::string gemm =
      std::string(kHeader) + "kernel,gemm,forward,p,float32,m=1;n=1;k=1,5,0,1,torch,lab\n";
  EXPECT_THAT(MessageFor(gemm), HasSubstr("unknown kernel operator 'gemm'; there are linear, bmm"));
}

constexpr char kExchange[] =
    "exchange,dispatch,-,p,float8_e4m3fn,tokens=128;hidden=7168;top_k=8;experts=256;ranks=16;"
    "nodes=2;groups=0;groups_of_token=0;sms=20;multiprocessors=132;nvlink_GBps=450;nic_GBps=50;"
    "algorithm=deduplicated,64,0,1,sglang 0.5.6 deepep,lab\n";

TEST(BenchmarkCsv, ReadsExchangesWithExperts) {
  const auto table = ParseBenchmarkCsv("t.csv", std::string(kHeader) + kExchange);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows[0].kind, BenchmarkKind::kExchange);
  EXPECT_EQ(table->rows[0].shape.Text("algorithm"), "deduplicated");
  const auto with = [](const std::string& what, const std::string& by) {
    std::string row = kExchange;
    row.replace(row.find(what), what.size(), by);
    return MessageFor(kHeader + row);
  };
  EXPECT_THAT(with("deduplicated", "ring"), HasSubstr("not deduplicated or direct"));
  EXPECT_THAT(with("top_k=8", "top_k=300"), HasSubstr("top_k=300 of 256 experts"));
  EXPECT_THAT(with("experts=256", "experts=99999999999"), HasSubstr("at most 1048576"));
  EXPECT_THAT(with("nodes=2", "nodes=3"), HasSubstr("not evenly spread"));
  EXPECT_EQ(with("dispatch", "dispatch_notify"), "");
  EXPECT_THAT(
      with("dispatch,-,p,float8_e4m3fn,tokens=128;hidden=7168;top_k=8;experts=256;ranks=16;"
           "nodes=2",
           "combine_notify,-,p,bfloat16,tokens=128;hidden=7168;top_k=8;experts=256;ranks=16;"
           "nodes=1"),
      HasSubstr("combine_notify is of deduplicated exchanges between nodes"));
  EXPECT_THAT(with(",64,", ",0.03,"), HasSubstr("time_us takes microseconds"));
}

TEST(BenchmarkCsv, NamesAWrongUnitInTheHeader) {
  std::string header = kHeader;
  header.replace(header.find("time_us"), 7, "time_ms");
  EXPECT_THAT(MessageFor(header + kRow),
              HasSubstr("t.csv:1: unknown column 'time_ms'; times are in microseconds"));
}

TEST(BenchmarkCsv, NamesUnknownAndMissingColumns) {
  EXPECT_THAT(MessageFor(std::string("colour,") + kHeader + kRow), HasSubstr("'colour'"));
  EXPECT_THAT(MessageFor("kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library\n"),
              HasSubstr("no column 'source'"));
  EXPECT_THAT(MessageFor(""), HasSubstr("no header"));
  EXPECT_THAT(MessageFor(kHeader), HasSubstr("no rows"));
}

TEST(BenchmarkCsv, RefusesTimesThatAreNotPositiveNumbers) {
  EXPECT_THAT(MessageFor(RowWith(",73.5,", ",0,")), HasSubstr("t.csv:2: time_us is 0"));
  EXPECT_THAT(MessageFor(RowWith(",73.5,", ",-3,")), HasSubstr("must be positive"));
  EXPECT_THAT(MessageFor(RowWith(",73.5,", ",nan,")), HasSubstr("not a number"));
  EXPECT_THAT(MessageFor(RowWith(",73.5,", ",73us,")), HasSubstr("not a number"));
  EXPECT_THAT(MessageFor(RowWith(",73.5,", ",,")), HasSubstr("not a number"));
  EXPECT_THAT(MessageFor(RowWith(",0.5,", ",-1,")), HasSubstr("std_us"));
  EXPECT_THAT(MessageFor(RowWith(",3,", ",0,")), HasSubstr("repeats"));
}

TEST(BenchmarkCsv, RefusesSentinels) {
  for (const char* time : {"100000", "1e6", "1000000000", "2e9"}) {
    EXPECT_THAT(MessageFor(RowWith(",73.5,", std::string(",") + time + ",")), HasSubstr("sentinel"))
        << time;
  }
  EXPECT_EQ(MessageFor(RowWith(",73.5,", ",100001,")), "");
}

TEST(BenchmarkCsv, RefusesTimesInAnotherUnit) {
  // 1 MiB in 0.0735 us would be 14 TB/s; 16 MiB in 2e9 ns read as us is caught as too slow.
  EXPECT_THAT(MessageFor(RowWith(",73.5,", ",0.0035,")), HasSubstr("milliseconds"));
  std::string slow = RowWith(",73.5,", ",7350001,");
  slow.replace(slow.find("bytes=1048576"), 13, "bytes=67108864");
  EXPECT_THAT(MessageFor(slow), HasSubstr("nanoseconds"));
}

TEST(BenchmarkCsv, RefusesDuplicates) {
  EXPECT_THAT(MessageFor(std::string(kHeader) + kRow + kRow),
              HasSubstr("t.csv:3: duplicate of line 2"));
}

TEST(BenchmarkCsv, ChecksShapes) {
  EXPECT_THAT(MessageFor(RowWith("ranks=8;", "")), HasSubstr("needs the shape key 'ranks'"));
  EXPECT_THAT(MessageFor(RowWith("ranks=8", "ranks=8;colour=1")), HasSubstr("'colour'"));
  EXPECT_THAT(MessageFor(RowWith("ranks=8", "ranks=8;ranks=8")), HasSubstr("twice"));
  EXPECT_THAT(MessageFor(RowWith("ranks=8", "ranks=eight")), HasSubstr("not an integer"));
  EXPECT_THAT(MessageFor(RowWith("ranks=8", "ranks")), HasSubstr("not key=value"));
  EXPECT_THAT(MessageFor(RowWith("ranks=8", "ranks=1")), HasSubstr("at least 2"));
  EXPECT_THAT(MessageFor(RowWith("bytes=1048576", "bytes=0")), HasSubstr("bytes is 0"));
  EXPECT_THAT(MessageFor(RowWith("nodes=1", "nodes=9")), HasSubstr("9 nodes for 8 ranks"));
  EXPECT_THAT(MessageFor(RowWith("placement=node", "placement=cross")), HasSubstr("placement"));
  EXPECT_THAT(MessageFor(RowWith(",p,", ",../p,")), HasSubstr("platform is '../p'"));
  EXPECT_THAT(MessageFor(RowWith("all_reduce", "all_mix")), HasSubstr("'all_mix'"));
  EXPECT_THAT(MessageFor(RowWith("collective,", "colective,")), HasSubstr("unknown kind"));
  EXPECT_THAT(MessageFor(RowWith(",-,", ",sideways,")), HasSubstr("unknown phase"));
}

TEST(BenchmarkCsv, GradientsOfConvolutionsAreBackward) {
  const auto row = [](const std::string& phase, const std::string& gradient) {
    return kHeader + ("kernel,conv2d," + phase) +
           ",p100-pcie,float32,n=1;c=8;h=8;w=8;k=8;r=3;s=3;stride=1;pad=1;dilation=1;groups=1;"
           "gradient=" +
           gradient + ",50,0,1,cudnn,x\n";
  };
  EXPECT_EQ(MessageFor(row("backward", "weight")), "");
  EXPECT_THAT(MessageFor(row("backward", "bias")), HasSubstr("not input or weight"));
  EXPECT_THAT(MessageFor(row("forward", "input")), HasSubstr("gradients are backward"));
}

TEST(BenchmarkCsv, AProductHasTwoOperands) {
  const auto row = [](const std::string& shape) {
    return kHeader + ("kernel," + shape) + ",50,0,1,cublas,x\n";
  };
  EXPECT_EQ(MessageFor(row("linear,forward,p100,float32,m=8;n=8;k=8;across=2")), "");
  EXPECT_THAT(MessageFor(row("linear,forward,p100,float32,m=8;n=8;k=8;across=3")),
              HasSubstr("across is 3"));
  EXPECT_THAT(MessageFor(row("bmm,forward,p100,float32,b=1;m=8;n=8;k=8;across=3")),
              HasSubstr("0, 1 or 2"));
}

TEST(BenchmarkCsv, RefusesBrokenLines) {
  EXPECT_THAT(MessageFor(std::string(kHeader) + "a,b\n"), HasSubstr("t.csv:2: 2 fields"));
  EXPECT_THAT(MessageFor(std::string(kHeader) + "\"a,b\n"), HasSubstr("quote"));
  EXPECT_THAT(std::string(ReadBenchmarkCsv("/nonexistent.csv").status().message()),
              HasSubstr("cannot be opened"));
}

}  // namespace
}  // namespace foretrace
