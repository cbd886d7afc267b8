// What rows say of how weights are divided over replicas, and what contradicts itself there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

// On 8 replicas of 2 devices in nodes of 8.
TEST(TrainingRowsTest, HybridShardsAsPeopleWriteThem) {
  const std::pair<const char*, int> words[] = {
      {"HSDP", 4},  // of a node of 8, with tp 2
      {"HSDP 4x2", 2},
      {"HSDP4x2", 2},
      {"HSDP 4 x 2", 2},
      {"HSDP (2 x 4)", 4},
      {"HSDP 2\xC3\x97"
       "4",
       4},
      {"HSDP shard degree 2", 2},
      {"HSDP shard=2", 2},
      {"HSDP dp_replicate=2 dp_shard=4", 4},
      {"HSDP replicate degree 4", 2},
      {"HSDP with 4 replicas", 2},
      {"HSDP 1x8", 0},  // all of them
      {"dp_shard=4 dp_replicate=2", 4},
      {"\"FSDP, shard 4, replicate 2\"", 4},
      {"\"FSDP, sharded weights, replicated norms\"", 0},
      {"\"FSDP, shard degree 4\"", 4},
      {"\"FSDP, FULL_SHARD; 8 nodes\"", 0},
      {"MiCS 4", 4},
      {"ici_fsdp_parallelism=4 dcn_data_parallelism=2", 4},
      {"\"ici_fsdp=4, dcn_data=-1\"", 4},
      {"\"FSDP, dcn_data_parallelism=4\"", 2},
      {"ici_fsdp=2 dcn_fsdp=2 dcn_data=2", 4},
      {"ici_fsdp=4 dcn_fsdp=2", 0},
      {"ici_fsdp_parallelism=-1 dcn_fsdp_parallelism=-1", 0},
      {"\"MiCS, mics_shard_size 2\"", 2},
      {"HYBRID_SHARD (ZeRO-3)", 4},
      {"HYBRID_SHARD (2 nodes)", 4},
      {"\"HYBRID_SHARD, 2 nodes\"", 4}};
  std::string text;
  for (const auto& [word, shards] : words) text += RowOf("BF16", word, "none");
  const auto rows = RowsOf(text, Stacks());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].refused, "") << words[i].first;
    EXPECT_EQ(rows[i].mapping.hybrid, words[i].second) << words[i].first;
    EXPECT_EQ(rows[i].mapping.zero, 3) << words[i].first;
    EXPECT_TRUE(rows[i].notes.empty()) << words[i].first;
  }
}

TEST(TrainingRowsTest, HybridShardsThatContradictTheReplicas) {
  const std::pair<const char*, const char*> words[] = {
      {"HSDP 2x3", "2 x 3 is 6, but there are 8 replicas"},
      {"HSDP 2x2", "2 x 2 is 4, but there are 8 replicas"},
      {"HSDP shard degree 3", "3 shards do not divide 8 replicas"},
      {"HSDP shard degree 16", "16 shards do not divide 8 replicas"},
      {"HSDP replicate degree 3", "3 copies do not divide 8 replicas"},
      {"HSDP 8x1", "one shard divides nothing"},
      {"\"HSDP, ZeRO-0\"", "zero 0 divides nothing"}};
  std::string text;
  for (const auto& [word, refused] : words) text += RowOf("BF16", word, "none");
  const auto rows = RowsOf(text, Stacks());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_THAT(rows[i].refused, HasSubstr(words[i].second)) << words[i].first;
    EXPECT_THAT(rows[i].refused, HasSubstr("sharding '")) << words[i].first;
  }
}

// 64 divides 256, and two copies of 64 are half of them.
TEST(TrainingRowsTest, CopiesCountToo) {
  const std::string rest = ",,1,,256,BF16,HSDP 2x64,none,NeMo,0,1,,,\n";
  const auto rows = RowsOf("known,,,,,,,,256,H100,8,1,1,256,1," + rest +
                               "known,,,,,,,,128,H100,8,1,1,128,1,,,1,,128,BF16,HSDP 2x64,none,"
                               "NeMo,0,1,,,\n",
                           Stacks());
  EXPECT_EQ(rows[0].refused,
            "sharding 'HSDP 2x64': 2 x 64 is 128, but there are 256 replicas (dp 256 x cp 1)");
  EXPECT_EQ(rows[1].refused, "");
  EXPECT_EQ(rows[1].mapping.hybrid, 64);
}

// What torchtitan calls dp_replicate and dp_shard leaves context parallelism out, whose devices
// divide the weights too (torchtitan/distributed/parallel_dims.py, dp_shard_cp).
TEST(TrainingRowsTest, HybridShardsBesideContextParallelism) {
  const auto rows = RowsOf(
      "known,,,,,,,,256,H100,8,1,1,128,2,,,1,,128,BF16,HSDP 2x64,none,NeMo,0,1,,,\n"
      "known,,,,,,,,256,H100,8,1,1,128,2,,,1,,128,BF16,HSDP 4x64,none,NeMo,0,1,,,\n"
      "known,,,,,,,,256,H100,8,1,1,128,2,,,1,,128,BF16,HSDP 3x64,none,NeMo,0,1,,,\n",
      Stacks());
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[0].mapping.hybrid, 128);
  EXPECT_EQ(rows[1].refused, "");
  EXPECT_EQ(rows[1].mapping.hybrid, 64);
  EXPECT_THAT(rows[2].refused, HasSubstr("3 x 64 is 192, but there are 256 replicas"));
}

// What no word of is known is the software's own, and said; "offload" is the host's part.
TEST(TrainingRowsTest, UnknownDivisionsAndHosts) {
  const auto rows =
      RowsOf(RowOf("BF16", "in thirds", "none") + RowOf("BF16", "", "none") +
                 RowOf("BF16", "ZeRO-Offload", "none") + RowOf("BF16", "ZeRO-3 no offload", "none"),
             Stacks());
  EXPECT_THAT(rows[0].notes, testing::ElementsAre(HasSubstr("sharding 'in thirds' is none")));
  EXPECT_TRUE(rows[1].notes.empty());
  EXPECT_TRUE(rows[2].mapping.offload);
  EXPECT_FALSE(rows[3].mapping.offload);
}

// What a row says stands over what the software divides by itself, but that its optimizer is
// distributed, which it also is where more is divided.
TEST(TrainingRowsTest, LessThanTheSoftwareDivides) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].zero = 3;
  const auto row = [&](const std::string& sharding) {
    return RowsOf(RowOf("BF16", sharding, "none"), stacks).at(0);
  };
  EXPECT_EQ(row("").mapping.zero, 3);
  EXPECT_EQ(row("ZeRO-1").mapping.zero, 1);
  EXPECT_EQ(row("ZeRO-2").mapping.zero, 2);
  EXPECT_EQ(row("distributed optimizer").mapping.zero, 3);
  EXPECT_THAT(row("distributed optimizer").notes, testing::ElementsAre(HasSubstr("as zero3")));
}

TEST(TrainingRowsTest, WordsThatContradictTheDivision) {
  std::string header = kHeader;
  header.insert(header.size() - 1, ",mapping");
  const TempFolder folder;
  const std::string path = folder.path() + "/division.csv";
  const std::string row = "known,,,,,,,,16,H100,8,2,1,8,1,,,1,,16,BF16,";
  std::ofstream(path) << header << row << "HSDP 4x2,none,NeMo,0,1,,zero3 hsdp4\n"
                      << row << "HSDP 4x2,none,NeMo,0,1,,hsdp2\n"
                      << row << ",none,NeMo,0,1,,zero3 hsdp4x2\n"
                      << row << ",none,NeMo,0,1,,zero3 hsdp2x2\n"
                      << row << "ZeRO-1,none,NeMo,0,1,,zero3\n";
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT((*rows)[0].refused, HasSubstr("sharding 'HSDP 4x2' and mapping"));
  EXPECT_EQ((*rows)[1].refused, "");
  EXPECT_EQ((*rows)[2].refused, "");
  EXPECT_EQ((*rows)[2].mapping.hybrid, 2);
  EXPECT_THAT((*rows)[3].refused, HasSubstr("hsdp2x2"));
  EXPECT_THAT((*rows)[4].refused, HasSubstr("sharding 'ZeRO-1' and mapping"));
}

// Instances are machines but for optimizers'.
TEST(TrainingRowsTest, InstancesAreMachines) {
  const auto hybrid = [](const char* sharding, const char* note) {
    const TrainingRow row = Judge({{"gpus", "32"}, {"sharding", sharding}, {"note", note}});
    EXPECT_EQ(row.refused, "") << note;
    return row.mapping.hybrid;
  };
  EXPECT_EQ(hybrid("ZeRO-1", "on 4 instances of p4d.24xlarge"), 0);
  EXPECT_EQ(hybrid("SHARD_GRAD_OP", "8 instances"), 0);
  EXPECT_EQ(hybrid("SHARD_GRAD_OP, 8 instances", ""), 0);
  EXPECT_EQ(hybrid("ZeRO-1", "4 distributed optimizer instances on 8 instances"), 8);
  EXPECT_EQ(hybrid("ZeRO-1", "optimizer instances: 2"), 16);
  EXPECT_EQ(hybrid("ZeRO-1, 2 optimizer instances", ""), 16);
}

// People count nodes, GPUs and devices beside the division, too.
TEST(TrainingRowsTest, NumbersThatAreNoGroups) {
  for (const char* sharding :
       {"FSDP full_shard 8 nodes", "FSDP shard 64 GPUs", "FSDP full shard 8x8",
        "distributed optimizer (sharded), 8x8 H100", "FSDP, dp_shard 8 nodes", "FSDP shard 4"}) {
    const TrainingRow row = Judge({{"gpus", "64"}, {"global_batch", "64"}, {"sharding", sharding}});
    EXPECT_EQ(row.refused, "") << sharding;
    EXPECT_EQ(row.mapping.hybrid, 0) << sharding;
  }
  EXPECT_EQ(Judge({{"sharding", "FSDP shard=4"}}).mapping.hybrid, 4);
}

// Of ZeRO++ a second partition, where its size is stated; all replicas' would be none. Weights in
// 8 bits, where that is said.
TEST(TrainingRowsTest, SecondPartitionOfZeroPlusPlus) {
  const std::pair<const char*, int32_t> cases[] = {{"ZeRO++", 0},
                                                   {"ZeRO++ hpz 8", 8},
                                                   {"ZeRO-3, zero_hpz_partition_size=8", 8},
                                                   {"ZeRO-3 hpZ8", 8},
                                                   {"ZeRO++ (hpz=32)", 0}};
  for (const auto& [sharding, shards] : cases) {
    const TrainingRow row = Judge({{"gpus", "32"}, {"sharding", sharding}});
    EXPECT_EQ(row.refused, "") << sharding;
    EXPECT_EQ(row.mapping.zero, 3) << sharding;
    EXPECT_EQ(row.mapping.second_shards, shards) << sharding;
  }
  EXPECT_THAT(Judge({{"gpus", "32"}, {"sharding", "ZeRO++ hpz 5"}}).refused, HasSubstr("hpz5"));
  const auto eight = [](const char* sharding) {
    return Judge({{"gpus", "32"}, {"sharding", sharding}}).mapping.eight_bit_weights;
  };
  EXPECT_FALSE(eight("ZeRO++"));
  EXPECT_TRUE(eight("ZeRO++ qwZ hpZ 8"));
  EXPECT_TRUE(eight("ZeRO-3 zero_quantized_weights"));
}

TrainingRow OfColumns(const std::string& sharding, const std::string& copies,
                      const std::string& shards, const std::string& mapping = "",
                      const std::string& framework = "torchtitan") {
  std::vector<SoftwareStack> stacks = Stacks();
  StackRelease titan, torch;
  titan.per_parameter_sharding = torch.flat_parameters = true;
  titan.zero = 3;
  stacks.push_back({"torchtitan", {"torchtitan"}, {titan}});
  stacks.push_back({"pytorch", {"pytorch"}, {torch}});
  return Judge({{"gpus", "32"},
                {"sharding", sharding},
                {"dp_replicate", copies},
                {"dp_shard", shards},
                {"mapping", mapping},
                {"framework", framework}},
               "known", stacks);
}

TEST(TrainingRowsTest, ColumnsThatMakeGroups) {
  using Case = std::tuple<const char*, const char*, const char*, const char*, int, int>;
  for (const auto& [framework, sharding, copies, shards, zero, hybrid] :
       {Case("torchtitan", "DDP", "32", "", 0, 0), Case("torchtitan", "DDP", "32", "-1", 0, 0),
        Case("torchtitan", "", "32", "-1", 0, 0), Case("torchtitan", "", "32", "1", 0, 0),
        Case("torchtitan", "FSDP", "1", "-1", 3, 0), Case("torchtitan", "", "4", "-1", 3, 8),
        Case("PyTorch", "", "4", "8", 3, 8), Case("PyTorch", "", "", "8", 3, 8),
        Case("PyTorch", "", "1", "32", 3, 0), Case("PyTorch", "", "", "-1", 3, 0),
        Case("PyTorch FSDP", "", "32", "1", 0, 0), Case("torchtitan", "HSDP", "4", "8", 3, 8),
        Case("torchtitan", "HSDP 4x8", "4", "8", 3, 8), Case("PyTorch", "none", "1", "", 0, 0)}) {
    const TrainingRow row = OfColumns(sharding, copies, shards, "", framework);
    const std::string name = std::string(framework) + " " + sharding + " " + copies + "/" + shards;
    EXPECT_EQ(row.refused, "") << name;
    EXPECT_EQ(std::tuple(row.mapping.zero, row.mapping.hybrid), std::tuple(zero, hybrid)) << name;
  }
}

TEST(TrainingRowsTest, ColumnsThatMakeNoGroups) {
  using Case = std::tuple<const char*, const char*, const char*, const char*, const char*>;
  for (const auto& [sharding, copies, shards, mapping, refused] :
       {Case("FSDP", "32", "1", "", "dp_shard '1' and sharding 'FSDP' contradict"),
        Case("DDP", "4", "8", "", "dp_shard '8' and sharding 'DDP' contradict"),
        Case("FSDP", "abc", "8", "", "dp_replicate 'abc' is no number of copies"),
        Case("FSDP", "-1", "8", "", "dp_replicate '-1' is no number of copies"),
        Case("FSDP", "", "-8", "", "dp_shard '-8' is no number of shards"),
        Case("FSDP", "", "64", "", "dp_shard '64': 64 shards do not divide 32 replicas"),
        Case("FSDP", "5", "1", "", "dp_replicate '5', dp_shard '1': 5 x 1 is 5, but there are 32"),
        Case("FSDP", "5", "-1", "", "dp_replicate '5', dp_shard '-1': 5 copies do not divide 32"),
        Case("HSDP 2x16", "4", "8", "", "sharding 'HSDP 2x16' and dp_replicate '4' contradict"),
        Case("", "4", "8", "hsdp16", "dp_shard '8' and mapping 'hsdp16' contradict"),
        Case("", "32", "1", "zero3", "dp_shard '1' and mapping 'zero3' contradict")}) {
    EXPECT_THAT(OfColumns(sharding, copies, shards, mapping).refused, HasSubstr(refused));
  }
  EXPECT_EQ(OfColumns("", "4", "8", "hsdp8").refused, "");
}

}  // namespace
}  // namespace foretrace
