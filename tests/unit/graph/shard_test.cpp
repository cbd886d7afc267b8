#include "simulator/graph/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace {
namespace {

using Op = CollectiveOp;

std::string_view Text(Op op) { return op == Op::kUnknown ? "-" : Name(op); }

// "before ffn up tensor: all_gather / all_gather reduce_scatter 4096", forward / backward.
std::vector<std::string> Described(const OperatorGraph& before, const ShardedGraph& sharded,
                                   const Binding& sizes) {
  static constexpr std::string_view kGroups[] = {"tensor", "context", "expert", "tokens"};
  std::vector<std::string> lines;
  for (const PlacedExchange& placed : sharded.exchanges) {
    const GroupExchange& e = sharded.graph.op(placed.op).exchange;
    std::string backward;
    for (const Op op : BackwardExchanges(e)) backward += " " + std::string(Text(op));
    lines.push_back(fmt::format("{} {} {}: {} /{} {}", placed.after ? "after" : "before",
                                before.op(placed.of).name, kGroups[static_cast<size_t>(e.group)],
                                Text(e.forward), backward.empty() ? " -" : backward,
                                ExchangedBytes(sharded.graph, sizes, placed.op).count()));
  }
  return lines;
}

TransformerConfig Small() {
  TransformerConfig c;
  c.family = TransformerFamily::kGpt;
  c.hidden = 64;
  c.layers = 2;
  c.heads = 8;
  c.vocabulary = 128;
  c.sequence = 32;
  c.fused_attention = true;
  return WithDefaults(c);
}

struct Sharding {
  TransformerGraph model;
  ShardedGraph sharded;
  Binding local, sizes;

  Sharding(const TransformerConfig& c, const TransformerShares& shares)
      : model(MakeTransformerGraph(c)),
        sharded(ShardGraph(model.graph, DivisionOf(model, c, shares))),
        local(BindTransformer(model, c, shares)),
        sizes(sharded.Bind(local, {{shares.tensor, shares.context, shares.expert}})) {}
  std::vector<std::string> Lines() const { return Described(model.graph, sharded, sizes); }
};

// Megatron-LM's f and g: a sum of the result forward, of the input's gradient backward. 2 samples
// of 32 tokens of 64 values of 2 bytes are 8,192 bytes; a loss reduces three numbers of 4 bytes for
// each of 64 tokens.
TEST(ShardTest, TensorParallelismSumsAtTheEndsOfRegions) {
  TransformerShares shares;
  shares.tensor = 4;
  shares.micro_batch = 2;
  EXPECT_EQ(
      Sharding(Small(), shares).Lines(),
      (std::vector<std::string>{
          "after embedding tensor: all_reduce / - 8192", "before qkv tensor: - / all_reduce 8192",
          "after projection tensor: all_reduce / - 8192",
          "before ffn up tensor: - / all_reduce 8192", "after ffn down tensor: all_reduce / - 8192",
          "before output layer tensor: - / all_reduce 8192",
          "before loss tensor: all_reduce / - 256"}));
}

// Korthikanti et al. (2022), section 4.2.2: g-bar gathers and scatters; the input is not kept.
TEST(ShardTest, SequenceParallelismGathersAndScatters) {
  TransformerShares shares;
  shares.tensor = 4;
  shares.sequence_parallel = true;
  const Sharding s(Small(), shares);
  EXPECT_EQ(s.Lines(),
            (std::vector<std::string>{
                "after embedding tensor: reduce_scatter / all_gather 4096",
                "before qkv tensor: all_gather / all_gather reduce_scatter 4096",
                "after projection tensor: reduce_scatter / all_gather 4096",
                "before ffn up tensor: all_gather / all_gather reduce_scatter 4096",
                "after ffn down tensor: reduce_scatter / all_gather 4096",
                "before output layer tensor: all_gather / all_gather reduce_scatter 4096",
                "before loss tensor: all_reduce / - 128"}));
  // What enters the GEMM has all 32 tokens, what leaves it is scattered from as many.
  const GraphOp& qkv = s.sharded.graph.op(s.sharded.exchanges[1].op);
  EXPECT_EQ(Elements(s.sharded.graph, s.sizes, qkv.inputs[0]), 8 * 64);
  EXPECT_EQ(Elements(s.sharded.graph, s.sizes, qkv.outputs[0]), 32 * 64);
  const GraphOp& projection = s.sharded.graph.op(s.sharded.exchanges[2].op);
  EXPECT_EQ(Elements(s.sharded.graph, s.sizes, projection.inputs[0]), 32 * 64);
  EXPECT_EQ(Elements(s.sharded.graph, s.sizes, projection.outputs[0]), 8 * 64);
}

// Tokens go to their experts and come back on the devices that hold them; of divided experts all
// routed tokens (2 each) are gathered there. The shared expert is a region of its own.
TEST(ShardTest, ExpertsAreVisited) {
  TransformerConfig c = Small();
  c.experts = 4;
  c.top_k = 2;
  c.shared_ffn = 64;
  TransformerShares shares;
  shares.tensor = 2;
  shares.expert = 2;
  shares.sequence_parallel = true;
  const auto of_experts = [&] {
    std::vector<std::string> found;
    for (const std::string& line : Sharding(c, shares).Lines()) {
      if (line.find("ffn") != std::string::npos) found.push_back(line);
    }
    return found;
  };
  EXPECT_EQ(of_experts(), (std::vector<std::string>{
                              "before ffn up expert: all_to_all / all_to_all 4096",
                              "before ffn up tensor: all_gather / all_gather reduce_scatter 8192",
                              "after ffn down tensor: reduce_scatter / all_gather 8192",
                              "after ffn down expert: all_to_all / all_to_all 4096"}));
  shares.expert_tensor = 1;  // whole ones need none of the tensor-parallel group's
  EXPECT_EQ(of_experts(),
            (std::vector<std::string>{"before ffn up expert: all_to_all / all_to_all 4096",
                                      "after ffn down expert: all_to_all / all_to_all 4096"}));
  const std::vector<std::string> lines = Sharding(c, shares).Lines();
  const auto has = [&](const char* line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  EXPECT_TRUE(has("before shared up tensor: all_gather / all_gather reduce_scatter 4096"));
  EXPECT_TRUE(has("after shared down tensor: reduce_scatter / all_gather 4096"));
}

// What a loss takes of all tokens is a number of 4 bytes for each of 4 experts, summed over all
// that divide a sequence, whether tokens or layers; of none alone.
TEST(ShardTest, LossesSumOverTokens) {
  TransformerConfig c = Small();
  c.experts = 4;
  c.top_k = 2;
  TransformerShares shares;
  shares.balance_loss = true;
  const auto sums = [&] {
    std::vector<std::string> found;
    for (const std::string& line : Sharding(c, shares).Lines()) {
      if (line.find("tokens") != std::string::npos) found.push_back(line);
    }
    return found;
  };
  const std::vector<std::string> one = {"after router softmax tokens: all_reduce / - 16"};
  EXPECT_TRUE(sums().empty());
  shares.context = 2;
  EXPECT_EQ(sums(), one);
  shares.tensor = 2;
  EXPECT_EQ(sums(), one);
  shares.context = 1;
  EXPECT_EQ(sums(), one);
  shares.balance_loss = false;
  EXPECT_TRUE(sums().empty());
}

// Two devices with 16 tokens each: keys and values of 64 x 2 bytes a token.
TEST(ShardTest, QueriesMeetAllKeys) {
  TransformerShares shares;
  shares.context = 2;
  TransformerConfig c = Small();
  using Lines = std::vector<std::string>;
  const Lines gathered = {"before attention context: all_gather / all_gather reduce_scatter 8192"};
  EXPECT_EQ(Sharding(c, shares).Lines(), gathered);
  shares.sequence = SequenceForm::kRing;
  EXPECT_EQ(Sharding(c, shares).Lines(),
            Lines{"before attention context: send_recv / send_recv 4096"});
  // PyTorch: gathered once, their gradients passed on.
  shares.sequence = SequenceForm::kGradientRing;
  EXPECT_EQ(Sharding(c, shares).Lines(),
            Lines{"before attention context: all_gather / all_gather send_recv 8192"});
  shares.sequence = SequenceForm::kHeads;
  const Sharding heads(c, shares);
  EXPECT_EQ(heads.Lines(), (Lines{"before attention context: all_to_all / all_to_all 6144",
                                  "after attention context: all_to_all / all_to_all 2048"}));
  // [batch, heads / 2, queries x 2, depth].
  const GraphOp& op = heads.sharded.graph.op(heads.sharded.exchanges[0].op);
  const auto& axes = heads.sharded.graph.tensor(op.outputs[0]).axes;
  EXPECT_EQ(heads.sizes.of(axes[1]), 4);
  EXPECT_EQ(heads.sizes.of(axes[2]), 32);
  // Scores of their own: keys and values are gathered before them, together.
  c.fused_attention = false;
  shares.sequence = SequenceForm::kGather;
  EXPECT_EQ(Sharding(c, shares).Lines(),
            Lines{"before scores context: all_gather / all_gather reduce_scatter 8192"});
}

// Of latent attention the latents are gathered, not the hidden states, and the key part that all
// heads share.
TEST(ShardTest, LatentsAreGathered) {
  TransformerConfig c = Small();
  c.head_size = 8;
  c.latent = 16;
  c.query_latent = 24;
  c.rotary_size = 4;
  c.value_size = 8;
  TransformerShares shares;
  shares.tensor = 2;
  shares.sequence_parallel = true;
  const std::vector<std::string> lines = Sharding(c, shares).Lines();
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(lines[1], "before query up tensor: all_gather / all_gather reduce_scatter 1536");
  EXPECT_EQ(lines[2],
            "before key and value up tensor: all_gather / all_gather reduce_scatter 1024");
  EXPECT_EQ(lines[3], "before rotary tensor: all_gather / all_gather reduce_scatter 256");
}

// Kernels are those of the graph before, axes are divided as BindTransformer divides them.
TEST(ShardTest, OperatorsAreThoseOfTheGraphBefore) {
  for (const int64_t experts : {0, 4}) {
    TransformerConfig c = Small();
    c.experts = experts;
    c.top_k = experts > 0 ? 2 : 0;
    for (int bits = 0; bits < 32; ++bits) {
      TransformerShares shares;
      shares.tensor = bits & 1 ? 2 : 1;
      shares.context = bits & 2 ? 2 : 1;
      shares.sequence_parallel = shares.tensor > 1 && (bits & 4) != 0;
      shares.expert = experts > 0 && (bits & 8) != 0 ? 2 : 1;
      shares.expert_tensor = experts > 0 && shares.sequence_parallel && (bits & 16) != 0 ? 1 : 0;
      const Sharding s(c, shares);
      ASSERT_TRUE(s.sharded.graph.Validate().ok());
      const OperatorGraph& before = s.model.graph;
      ASSERT_EQ(s.sharded.operators.size(), before.ops().size());
      for (OpId id = 0; static_cast<size_t>(id) < before.ops().size(); ++id) {
        const OpId own = s.sharded.operators[static_cast<size_t>(id)];
        // A divided table's look-up has all tokens, whose sums are scattered behind it; before
        // division it says what is left of them.
        if (before.op(id).name == "embedding" && shares.sequence_parallel) continue;
        for (const Direction pass : {Direction::kForward, Direction::kBackward}) {
          const CallList a = CallsOf(before, s.local, id, pass);
          const CallList b = CallsOf(s.sharded.graph, s.sizes, own, pass);
          ASSERT_EQ(a.size(), b.size());
          for (size_t i = 0; i < a.size(); ++i) {
            EXPECT_EQ(TotalWork(a[i]).flop.count(), TotalWork(b[i]).flop.count())
                << before.op(id).name;
          }
        }
      }
      const Division division = DivisionOf(s.model, c, shares);
      const Binding whole = BindTransformer(s.model, c, {});
      for (AxisId axis = 0; static_cast<size_t>(axis) < before.axes().size(); ++axis) {
        int64_t parts = 1;
        if (division.Divides(axis, ShardGroup::kTensor)) parts *= shares.tensor;
        if (division.Divides(axis, ShardGroup::kContext)) parts *= shares.context;
        // A device's experts have as many routed tokens as its own tokens make.
        const bool home = axis == s.model.axes.experts;
        if (home && division.Divides(axis, ShardGroup::kExpert)) parts *= shares.expert;
        EXPECT_EQ(s.local.of(axis) * parts, whole.of(axis)) << before.axes()[axis].name;
      }
    }
  }
}

}  // namespace
}  // namespace foretrace
