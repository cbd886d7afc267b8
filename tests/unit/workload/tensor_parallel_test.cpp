#include "simulator/workload/tensor_parallel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/workload/multi_branch.h"
#include "simulator/workload/operator_call_yaml.h"
#include "simulator/workload/transformer.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

class Graph {
 public:
  int32_t Add(const char* name, const OperatorCall::Shape& shape, const std::vector<int32_t>& from,
              int64_t output_bytes = 1024, bool trains = true) {
    Operator op;
    op.name = name;
    op.calls = {{shape, DType::kFloat16}};
    op.output_bytes = op.stash_tensor = Bytes(output_bytes);
    if (trains) op.backward_flop = Flop(1);
    const auto id = static_cast<int32_t>(w_.operators.size());
    for (const int32_t f : from) {
      w_.edges.push_back({f, id, w_.operators[static_cast<size_t>(f)].output_bytes});
    }
    w_.operators.push_back(std::move(op));
    return id;
  }
  Workload Found(int64_t samples = 1) {
    w_.call_samples = samples;
    FindTensorParallelism(w_, Kept::kResults);
    return w_;
  }

 private:
  Workload w_;
};

const Operator& Named(const Workload& w, std::string_view name) {
  for (const Operator& op : w.operators) {
    if (op.name == name) return op;
  }
  ADD_FAILURE() << name;
  return w.operators.front();
}

// norm -> q, k, v -> scores + mask -> softmax -> context -> projection -> residual -> norm -> up ->
// gelu -> down -> residual -> norm: two samples of 8 tokens, 12 heads of 4, hidden 48.
Workload Block() {
  Graph g;
  const int32_t mask = g.Add("mask", FillOp{64}, {}, 64, false);
  const int32_t first = g.Add("embedding", IndexOp{768, 16, 1000}, {});
  const int32_t norm = g.Add("norm", LayerNormOp{16, 48}, {first});
  std::vector<int32_t> qkv;
  for (const char* name : {"q", "k", "v"}) {
    qkv.push_back(g.Add(name, LinearOp{16, 48, 48}, {norm}));
  }
  const int32_t scores = g.Add("scores", BatchedMatmulOp{24, 8, 8, 4}, {qkv[0], qkv[1]});
  const int32_t masked = g.Add("masked", ElementwiseOp{1536, 1600}, {scores, mask});
  const int32_t softmax = g.Add("softmax", SoftmaxOp{192, 8}, {masked});
  const int32_t context = g.Add("context", BatchedMatmulOp{24, 8, 4, 8}, {softmax, qkv[2]});
  const int32_t copy = g.Add("transpose", CopyOp{768, true}, {context});
  const int32_t projection = g.Add("projection", LinearOp{16, 48, 48}, {copy});
  const int32_t residual = g.Add("residual", ElementwiseOp{768, 1536}, {first, projection});
  const int32_t second = g.Add("second norm", LayerNormOp{16, 48}, {residual});
  const int32_t up = g.Add("up", LinearOp{16, 192, 48}, {second});
  const int32_t gelu = g.Add("gelu", ElementwiseOp{3072, 3072}, {up});
  const int32_t down = g.Add("down", LinearOp{16, 48, 192}, {gelu});
  const int32_t out = g.Add("out", ElementwiseOp{768, 1536}, {residual, down});
  const int32_t last = g.Add("last norm", LayerNormOp{16, 48}, {out});
  const int32_t head = g.Add("head", LinearOp{16, 100, 48}, {last});
  g.Add("loss", SoftmaxOp{16, 100}, {head});
  return g.Found(2);
}

// Megatron-LM's division of a block: by heads and by the feed-forward width, one sum at the end of
// each forward and one at the beginning of each backward.
TEST(TensorParallel, DividesABlockAsMegatronDoes) {
  const Workload w = Block();
  for (const char* name :
       {"q", "k", "v", "scores", "masked", "softmax", "context", "transpose", "projection"}) {
    EXPECT_EQ(Named(w, name).tensor_ways, 12) << name;
  }
  for (const char* name : {"up", "gelu", "down"}) {
    EXPECT_EQ(Named(w, name).tensor_ways, 192) << name;
  }
  // Probabilities over the vocabulary need every column; residuals and norms are whole.
  for (const char* name : {"embedding", "norm", "residual", "second norm", "out", "last norm",
                           "head", "loss", "mask"}) {
    EXPECT_EQ(Named(w, name).tensor_ways, 1) << name;
  }
  std::vector<std::string> forward, backward;
  for (const Operator& op : w.operators) {
    if (op.reduces_output) forward.push_back(op.name);
    if (op.reduces_gradient) backward.push_back(op.name);
  }
  EXPECT_THAT(forward, testing::ElementsAre("projection", "down"));
  // Gradients of q, k and v are added up before they are summed over the group.
  EXPECT_THAT(backward, testing::ElementsAre("q", "up"));
  // What ends a division is whole on every device.
  EXPECT_EQ(Named(w, "down").stash_tensor, Bytes());
  EXPECT_EQ(Named(w, "down").stash_sequence, Bytes(1024));
  EXPECT_EQ(Named(w, "gelu").stash_tensor, Bytes(1024));
}

TEST(TensorParallel, PartsOfCalls) {
  const Workload w = Block();
  const auto part = [&](const char* name) { return DividedCalls(Named(w, name), 4).front().shape; };
  EXPECT_EQ(std::get<LinearOp>(part("q")).n, 12);
  EXPECT_EQ(std::get<LinearOp>(part("projection")).k, 12);
  EXPECT_EQ(std::get<LinearOp>(part("projection")).n, 48);
  EXPECT_EQ(std::get<BatchedMatmulOp>(part("scores")).b, 6);
  EXPECT_EQ(std::get<SoftmaxOp>(part("softmax")).rows, 48);
  EXPECT_EQ(std::get<ElementwiseOp>(part("gelu")).elements, 768);
  EXPECT_TRUE(Named(w, "q").DividedBy(4));
  EXPECT_FALSE(Named(w, "q").DividedBy(8));
  EXPECT_FALSE(Named(w, "norm").DividedBy(2));
}

// Of a chain of GEMMs every second is divided by columns; one whose weights were cast (a copy of
// what nothing makes) takes its weights' parameters with it.
TEST(TensorParallel, ChainsAlternateAndCastsOfWeightsFollow) {
  Graph g;
  int32_t last = g.Add("in", LayerNormOp{2, 8}, {});
  std::vector<int32_t> casts;
  for (const char* name : {"a", "b", "c"}) {
    const int32_t cast = g.Add("cast", CopyOp{64}, {});
    casts.push_back(cast);
    last = g.Add(name, LinearOp{2, 8, 8}, {last, cast});
  }
  g.Add("out", LayerNormOp{2, 8}, {last});
  const Workload w = g.Found();
  EXPECT_TRUE(Named(w, "a").reduces_gradient);
  EXPECT_TRUE(Named(w, "b").reduces_output);
  EXPECT_EQ(Named(w, "c").tensor_ways, 1);
  EXPECT_EQ(w.operators[static_cast<size_t>(casts[0])].tensor_ways, 8);
  EXPECT_EQ(w.operators[static_cast<size_t>(casts[1])].tensor_ways, 8);
  EXPECT_EQ(w.operators[static_cast<size_t>(casts[2])].tensor_ways, 1);
}

// Channels of convolutions, through batch norm; a depthwise one is divided with its input.
TEST(TensorParallel, Convolutions) {
  Graph g;
  const int32_t in = g.Add("in", FillOp{1}, {});
  int32_t x = g.Add("first", Conv2dOp{1, 16, 8, 8, 64, 1, 1, 8, 8}, {in});
  x = g.Add("norm", BatchNormOp{1, 64, 8, 8}, {x});
  x = g.Add("depthwise", Conv2dOp{1, 64, 8, 8, 64, 3, 3, 8, 8, 64}, {x});
  x = g.Add("last", Conv2dOp{1, 64, 8, 8, 24, 1, 1, 8, 8}, {x});
  g.Add("mean", ReductionOp{24, 64}, {x});
  const Workload w = g.Found();
  for (const char* name : {"first", "norm", "depthwise", "last"}) {
    EXPECT_EQ(Named(w, name).tensor_ways, 64) << name;
  }
  EXPECT_TRUE(Named(w, "last").reduces_output);
  EXPECT_EQ(std::get<Conv2dOp>(DividedCalls(Named(w, "depthwise"), 2)[0].shape).groups, 32);
  EXPECT_EQ(std::get<Conv2dOp>(DividedCalls(Named(w, "last"), 2)[0].shape).c, 32);
}

// Models whose graphs have axes are divided by these (graph/shard.h); of their operators' sizes
// alone the same is found: which operators are divided, how far, and what is summed.
TEST(TensorParallel, SizesTellWhatAxesDo) {
  for (const TransformerFamily family : {TransformerFamily::kGpt, TransformerFamily::kLlama}) {
    for (const bool fused : {false, true}) {
      TransformerConfig c;
      c.family = family;
      c.hidden = 192;
      c.layers = 2;
      c.heads = 12;
      c.ffn = 704;
      c.vocabulary = 1000;
      c.sequence = 64;
      c.fused_attention = fused;
      const auto by_axes = BuildTransformer(c);
      ASSERT_TRUE(by_axes.ok()) << by_axes.status();
      Workload by_sizes = *by_axes;
      for (Operator& op : by_sizes.operators) {
        op.tensor_ways = 1;
        op.reduces_output = op.reduces_gradient = false;
      }
      FindTensorParallelism(by_sizes, Kept::kInputs);
      for (size_t i = 0; i < by_axes->operators.size(); ++i) {
        const Operator &axes = by_axes->operators[i], &sizes = by_sizes.operators[i];
        if (axes.block < 0) continue;
        const std::string what = fmt::format("{} {} {}", Name(family), fused, axes.name);
        EXPECT_EQ(sizes.tensor_ways, axes.tensor_ways) << what;
        EXPECT_EQ(sizes.reduces_output, axes.reduces_output) << what;
        EXPECT_EQ(sizes.reduces_gradient, axes.reduces_gradient) << what;
      }
    }
  }
}

TEST(TensorParallel, OfBuiltModels) {
  const auto mmt = BuildMultiModalTransformer({});
  ASSERT_TRUE(mmt.ok());
  const Operator& attention = mmt->operators[0];
  EXPECT_EQ(attention.tensor_ways, 16);
  // Inside, the first GEMM is divided by columns and the last by rows.
  const auto calls = DividedCalls(attention, 4);
  EXPECT_EQ(std::get<LinearOp>(calls.front().shape).n, 3 * 1024 / 4);
  EXPECT_EQ(std::get<LinearOp>(calls.back().shape).k, 1024 / 4);
  EXPECT_TRUE(mmt->operators[1].reduces_gradient);
  EXPECT_TRUE(mmt->operators[2].reduces_output);
}

TEST(OperatorCalls, WrittenAndReadBack) {
  const Workload w = Block();
  std::string text = "graph:\n  call_samples: 2\n  operators:\n";
  for (const Operator& op : w.operators) {
    text += fmt::format(
        "    - {{name: \"{}\", calls: [{}], output_bytes: {}, backward_flop: {}}}\n", op.name,
        OperatorCallYaml(op.calls.front()), op.output_bytes.count(), op.backward_flop.count());
  }
  text += "  edges:\n";
  for (const OperatorEdge& e : w.edges) {
    text += fmt::format("    - [\"{}\", \"{}\"]\n", w.operators[static_cast<size_t>(e.from)].name,
                        w.operators[static_cast<size_t>(e.to)].name);
  }
  const auto read = ParseWorkload(text, "written");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->call_samples, 2);
  for (size_t i = 0; i < w.operators.size(); ++i) {
    EXPECT_EQ(OperatorCallYaml(read->operators[i].calls.front()),
              OperatorCallYaml(w.operators[i].calls.front()));
    EXPECT_EQ(read->operators[i].tensor_ways, w.operators[i].tensor_ways) << w.operators[i].name;
  }
}

TEST(OperatorCalls, ErrorsNameTheFault) {
  const auto error = [](const std::string& call) {
    return std::string(
        ParseWorkload("graph: {operators: [{name: a, calls: [" + call + "]}]}", "f.yaml")
            .status()
            .message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(error("{gemm: {m: 1}}"), HasSubstr("operator 0: call 0: unknown operator 'gemm'"));
  EXPECT_THAT(error("{linear: {rows: 1}}"), HasSubstr("unknown key 'rows'; known are"));
  EXPECT_THAT(error("{linear: {m: -1}}"), HasSubstr("'m' is negative"));
  EXPECT_THAT(error("{linear: {}, softmax: {}}"), HasSubstr("a second operator, 'softmax'"));
  EXPECT_THAT(error("{dtype: float16}"), HasSubstr("no operator"));
  EXPECT_THAT(error("7"), HasSubstr("must be a map"));
}

}  // namespace
}  // namespace foretrace
