#include <map>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/file_parts.h"
#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

constexpr double kMostSize = 1e12;

int64_t Size(const YamlReader& in, std::string_view key, double low = 1) {
  const double v = in.Number(key, low, kMostSize);
  if (v != static_cast<double>(static_cast<int64_t>(v))) in.Fail(key, "a whole number is needed");
  return static_cast<int64_t>(v);
}
int64_t SizeOr(const YamlReader& in, std::string_view key, int64_t fallback) {
  return in.Has(key) ? Size(in, key) : fallback;
}

Workload ReadTransformer(const YamlReader& in, bool train) {
  if (in.Has("family") && in.String("family") != "gpt") {
    in.Fail("family",
            fmt::format("'{}' has no layer in the dataflow model, which has that of gpt alone; "
                        "write the kernels under graph: (docs/dataflow.md)",
                        in.String("family")));
  }
  // The last four are of embeddings, which no layer has.
  constexpr std::array<std::string_view, 18> kKeys = {"dtype",
                                                      "family",
                                                      "hidden",
                                                      "layers",
                                                      "heads",
                                                      "head_size",
                                                      "vocabulary",
                                                      "sequence",
                                                      "keys",
                                                      "ffn",
                                                      "experts",
                                                      "top_k",
                                                      "fused_attention",
                                                      "output_layer",
                                                      "positions",
                                                      "learned_positions",
                                                      "embedding_norm",
                                                      "tied"};
  in.ExpectKeys(kKeys);
  constexpr std::array<std::string_view, 4> kTypes = {"fp16", "float16", "bf16", "bfloat16"};
  if (in.Has("dtype")) in.Choice("dtype", kTypes);  // two bytes each
  TransformerSizes s;
  s.hidden = Size(in, "hidden");
  s.layers = Size(in, "layers");
  s.heads = Size(in, "heads");
  s.sequence = Size(in, "sequence");
  s.keys = SizeOr(in, "keys", 0);
  s.train = train;
  if (!in.ok()) return {};
  if (in.Has("keys") && train)
    in.Fail("keys", "earlier tokens are cached in inference alone; give train: false");
  if (in.Has("keys") && s.keys < s.sequence)
    in.Fail("keys", "fewer than the sequence, which attends to itself too");
  if (s.hidden % s.heads != 0 && !in.Has("head_size"))
    in.Fail("heads", "they do not divide hidden; give head_size");
  s.head_size = SizeOr(in, "head_size", s.hidden / s.heads);
  if (s.heads * s.head_size != s.hidden) in.Fail("head_size", "heads x head_size is not hidden");
  s.fused_attention = in.Bool("fused_attention", false);
  if (in.Bool("output_layer", false)) s.vocabulary = Size(in, "vocabulary");
  s.ffn = SizeOr(in, "ffn", 0);
  s.experts = SizeOr(in, "experts", 0);
  s.top_k = SizeOr(in, "top_k", 1);
  if (in.Has("top_k") && !in.Has("experts")) in.Fail("top_k", "there are no experts; give experts");
  if (in.ok() && s.experts > 0 && s.top_k > s.experts)
    in.Fail("top_k", "more than there are experts");
  return in.ok() ? MakeTransformer(s) : Workload{};
}

Workload ReadStateSpace(const YamlReader& in, bool train) {
  constexpr std::array<std::string_view, 7> kKeys = {"hidden", "inner", "layers", "sequence",
                                                     "state",  "rank",  "taps"};
  in.ExpectKeys(kKeys);
  StateSpaceSizes s;
  s.hidden = Size(in, "hidden");
  s.layers = Size(in, "layers");
  s.sequence = Size(in, "sequence");
  s.inner = SizeOr(in, "inner", 0);
  s.state = SizeOr(in, "state", s.state);
  s.rank = SizeOr(in, "rank", 0);
  s.taps = SizeOr(in, "taps", s.taps);
  s.train = train;
  return in.ok() ? MakeStateSpace(s) : Workload{};
}

Workload ReadDlrm(const YamlReader& in) {
  constexpr std::array<std::string_view, 7> kKeys = {
      "bottom_layers", "top_layers", "width", "rows", "tables", "pooled", "embedding"};
  in.ExpectKeys(kKeys);
  DlrmSizes s;
  s.bottom_layers = Size(in, "bottom_layers");
  s.top_layers = Size(in, "top_layers");
  s.width = Size(in, "width");
  s.rows = Size(in, "rows");
  s.tables = Size(in, "tables");
  s.pooled = Size(in, "pooled");
  s.embedding = Size(in, "embedding");
  if (in.ok() && s.bottom_layers + s.top_layers > 21)
    in.Fail("top_layers", "up to 21 layers together");
  return in.ok() ? MakeDlrm(s) : Workload{};
}

Workload ReadHpl(const YamlReader& in) {
  constexpr std::array<std::string_view, 5> kKeys = {"n", "block", "iterations", "grid_rows",
                                                     "grid_columns"};
  in.ExpectKeys(kKeys);
  HplSizes s;
  s.n = Size(in, "n");
  s.block = Size(in, "block");
  s.iterations = Size(in, "iterations");
  s.grid_rows = Size(in, "grid_rows");
  s.grid_columns = Size(in, "grid_columns");
  if (in.ok() && s.iterations > 64) in.Fail("iterations", "up to 64");
  if (in.ok() && s.block * (s.iterations - 1) >= s.n) in.Fail("iterations", "more than n / block");
  return in.ok() ? MakeHpl(s) : Workload{};
}

Workload ReadFft(const YamlReader& in) {
  constexpr std::array<std::string_view, 4> kKeys = {"m", "n", "radix", "chips"};
  in.ExpectKeys(kKeys);
  FftSizes s;
  s.m = Size(in, "m");
  s.n = Size(in, "n");
  s.radix = Size(in, "radix");
  s.chips = Size(in, "chips");
  return in.ok() ? MakeFft(s) : Workload{};
}

// An operator, its producers not yet known.
struct FileKernel {
  std::string name;
  GraphOpKind kind = GraphOpKind::kElementwise;
  LoopNest nest;
  bool weight_gradient = false;
  std::vector<OpId> inputs;
};

FileKernel ReadKernel(const YamlReader& in, LoopGraph& graph) {
  constexpr std::array<std::string_view, 10> kKeys = {
      "name", "kind", "pass", "outer", "m", "k", "n", "labels", "tiled", "weight_gradient"};
  constexpr std::array<std::string_view, 3> kKinds = {"weighted_gemm", "gemm", "elementwise"};
  constexpr std::array<GraphOpKind, 3> kOps = {GraphOpKind::kMatmul, GraphOpKind::kBatchedMatmul,
                                               GraphOpKind::kElementwise};
  constexpr std::array<std::string_view, 2> kPasses = {"forward", "backward"};
  constexpr std::array<std::string_view, 5> kAxes = {"outer", "m", "k", "n", "none"};
  in.ExpectKeys(kKeys);
  FileKernel k;
  k.name = in.String("name");
  k.kind = kOps.at(in.Choice("kind", kKinds));
  if (in.Has("pass")) k.nest.pass = static_cast<Direction>(in.Choice("pass", kPasses));
  if (in.Has("tiled")) k.nest.streamed = static_cast<Loop>(in.Choice("tiled", kAxes));
  k.weight_gradient = in.Bool("weight_gradient", false);
  std::optional<YamlReader> labels;
  if (in.Has("labels")) {
    labels = in.Child("labels");
    labels->ExpectKeys(std::span(kAxes).first(kLoops));
  }
  for (size_t l = 0; l < kLoops; ++l) {
    const int64_t size = SizeOr(in, kAxes[l], 1);
    const std::string label = labels ? labels->String(kAxes[l], "") : "";
    k.nest.axes[l] = {graph.AddAxis(label, size)};
    if (l == static_cast<size_t>(Loop::kK) && size != 1 && k.kind == GraphOpKind::kElementwise)
      in.Fail("k", "elementwise kernels have none");
  }
  return k;
}

// A tensor of the file; ends are kernels in the order of the file.
struct FileTensor {
  int from = 0, to = 0;
  std::string made, read;  // labels, where the ends differ
  bool next_layer = false;
};

FileTensor ReadTensor(const YamlReader& in, const std::map<std::string, int>& ids) {
  constexpr std::array<std::string_view, 4> kKeys = {"from", "to", "renamed", "next_layer"};
  in.ExpectKeys(kKeys);
  FileTensor t;
  for (const auto& [key, end] : {std::pair{"from", &t.from}, std::pair{"to", &t.to}}) {
    const auto found = ids.find(in.String(key));
    if (in.ok() && found == ids.end()) in.Fail(key, "there is no such kernel");
    if (!in.ok()) return t;
    *end = found->second;
  }
  if (in.Has("renamed")) {
    const std::vector<std::string> names = Strings(in, "renamed");
    if (names.size() != 2) in.Fail("renamed", "the producer's and the consumer's label");
    if (in.ok()) t.made = names[0], t.read = names[1];
  }
  t.next_layer = in.Bool("next_layer", false);
  return t;
}

// Operators come after what they read, else in the order of the file.
LoopGraph Build(const YamlReader& in, LoopGraph graph, std::vector<FileKernel> kernels,
                const std::vector<FileTensor>& tensors) {
  std::vector<std::pair<int, int>> edges;
  for (const FileTensor& t : tensors) {
    if (!t.next_layer) edges.emplace_back(t.from, t.to);
  }
  const std::vector<int> order = TopologicalOrder(kernels.size(), edges);
  std::vector<OpId> ids(kernels.size(), kNoOp);
  for (size_t i = 0; i < order.size(); ++i)
    ids[static_cast<size_t>(order[i])] = static_cast<OpId>(i);
  if (order.size() < kernels.size()) {
    std::string cycle;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == kNoOp) cycle += (cycle.empty() ? "" : ", ") + kernels[i].name;
    }
    in.Fail("tensors",
            fmt::format("a cycle within or before kernels {}; they must not lead back", cycle));
    return graph;
  }
  const auto id = [&](int kernel) { return ids[static_cast<size_t>(kernel)]; };
  for (const auto& [from, to] : edges) kernels[static_cast<size_t>(to)].inputs.push_back(id(from));
  for (const int i : order) {
    FileKernel& k = kernels[static_cast<size_t>(i)];
    graph.Add(std::move(k.name), k.kind, std::move(k.nest), k.inputs,
              k.weight_gradient ? TensorRole::kGradient : TensorRole::kActivation);
  }
  for (const FileTensor& t : tensors) {
    const bool renamed = !t.made.empty() || !t.read.empty();
    const AxisId made = renamed ? graph.AddAxis(t.made, 1) : -1,
                 read = renamed ? graph.AddAxis(t.read, 1) : -1;
    if (t.next_layer) {
      graph.Carry({id(t.from), id(t.to), made, read});
    } else if (renamed) {
      graph.Read({id(t.to), id(t.from), made, read});
    }
  }
  return graph;
}

Workload ReadGraph(const YamlReader& in) {
  constexpr std::array<std::string_view, 6> kKeys = {"kernels", "tensors",    "word_bytes",
                                                     "layers",  "tiled_size", "layer_input_bytes"};
  in.ExpectKeys(kKeys);
  LoopGraph graph;
  std::vector<FileKernel> kernels;
  std::map<std::string, int> ids;
  for (const YamlReader& item : in.Child("kernels").Items()) {
    kernels.push_back(ReadKernel(item, graph));
    if (!ids.emplace(kernels.back().name, static_cast<int>(ids.size())).second)
      item.Fail("name", "it is another kernel's");
    if (!in.ok()) return {};
  }
  std::vector<FileTensor> tensors;
  if (in.Has("tensors")) {
    for (const YamlReader& item : in.Child("tensors").Items()) {
      tensors.push_back(ReadTensor(item, ids));
      if (!in.ok()) return {};
    }
  }
  graph = Build(in, std::move(graph), std::move(kernels), tensors);
  if (!in.ok()) return {};
  Workload w = MakeWorkload("", std::move(graph), RealBytes(in.Number("word_bytes", 0.5, 16, 2)));
  w.layers = SizeOr(in, "layers", 1);
  w.tiled_size = SizeOr(in, "tiled_size", 1);
  w.layer_input_bytes = RealBytes(in.Number("layer_input_bytes", 0, 1e18, 0));
  return w;
}

}  // namespace

std::vector<std::string> Strings(const YamlReader& in, std::string_view key) {
  std::vector<std::string> out;
  if (!in.Has(key)) return out;
  for (const YamlReader& item : in.Child(key).Items()) out.push_back(item.AsString());
  return out;
}

Workload ReadWorkload(const YamlReader& in) {
  in.ExpectKeys(kWorkloadKeys);
  const bool train = in.Bool("train", true);
  Workload w;
  int kinds = 0;
  const auto take = [&](std::string_view key, const auto& read) {
    if (!in.Has(key) || !in.ok()) return;
    ++kinds;
    w = read(in.Child(key));
  };
  take("transformer", [&](const YamlReader& r) { return ReadTransformer(r, train); });
  take("state_space", [&](const YamlReader& r) { return ReadStateSpace(r, train); });
  take("dlrm", ReadDlrm);
  take("hpl", ReadHpl);
  take("fft", ReadFft);
  take("graph", ReadGraph);
  if (in.ok() && kinds != 1)
    in.Fail("", "one of transformer, state_space, dlrm, hpl, fft, graph is needed");
  w.name = in.String("name", w.name);
  w.batch = in.Number("batch", 1, 1e15, 1);
  if (w.batch != static_cast<double>(static_cast<int64_t>(w.batch)))
    in.Fail("batch", "a whole number is needed");
  return w;
}

absl::StatusOr<Workload> LoadWorkload(const std::string& file) {
  return LoadYaml<Workload>(ReadYamlFile(file), file,
                            [&](const YamlReader& in) -> absl::StatusOr<Workload> {
                              Workload w = ReadWorkload(in);
                              if (!in.ok()) return in.status();
                              if (absl::Status valid = Validate(w); !valid.ok())
                                return InvalidInput("{}: {}", file, std::string(valid.message()));
                              return w;
                            });
}

}  // namespace foretrace::dataflow
