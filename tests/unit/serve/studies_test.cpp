// Published studies and their closed forms.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "simulator/serve/cache_parallelism.h"
#include "simulator/serve/deployment_search.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/pipelined_decode.h"
#include "simulator/serve/speculation.h"
#include "tests/support/real_data.h"
#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

// A table without quotes, by its header.
std::vector<std::map<std::string, std::string>> CsvRows(const std::string& file) {
  std::ifstream in(file);
  std::string line, cell;
  std::vector<std::string> header;
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    std::vector<std::string> fields;
    while (std::getline(cells, cell, ',')) fields.push_back(cell);
    if (header.empty()) {
      header = fields;
      continue;
    }
    auto& row = rows.emplace_back();
    for (size_t i = 0; i < header.size(); ++i) row[header[i]] = i < fields.size() ? fields[i] : "";
  }
  return rows;
}

// Scores 0 and ln 2 over values 1 and 4: maximum ln 2, sum 1/2 + 1, mean (1/2 * 1 + 4) / 1.5 = 3.
// Score ln 3 over 8. Together (1 * 1 + 2 * 4 + 3 * 8) / 6 = 5.5.
TEST(CacheParallelism, PartsMergeExactly) {
  const double ln2 = std::log(2.0), ln3 = std::log(3.0);
  const std::vector<double> a_scores = {0, ln2}, b_scores = {ln3};
  const std::vector<std::vector<double>> a_values = {{1}, {4}}, b_values = {{8}};
  const std::vector<PartialAttention> parts = {Attend(a_scores, a_values),
                                               Attend(b_scores, b_values)};
  EXPECT_DOUBLE_EQ(parts[0].maximum, ln2);
  EXPECT_DOUBLE_EQ(parts[0].sum, 1.5);
  EXPECT_DOUBLE_EQ(parts[0].output[0], 3);
  const PartialAttention all = Merge(parts);
  EXPECT_NEAR(all.output[0], 5.5, 1e-14);
  EXPECT_NEAR(all.sum, 2, 1e-14);  // 6 relative to the maximum of 3
  // A device without positions of the sequence changes nothing.
  EXPECT_NEAR(Merge(std::vector<PartialAttention>{parts[0], {}, parts[1]}).output[0], 5.5, 1e-14);
}

// B = 128, E = 4096, H = 32. Tensor, total: 4 (N - 1) B E = 12 * 524,288 for N = 4. Cache, a GPU:
// 3 B E 3/4 + B (E + 64) 3/4 = 1,179,648 + 399,360.
TEST(CacheParallelism, VolumesOfBothForms) {
  EXPECT_DOUBLE_EQ(TensorVolume(VolumeForm::kThesis, 128, 4096, 4), 6291456);
  EXPECT_DOUBLE_EQ(TensorVolume(VolumeForm::kThesis, 128, 4096, 8), 14680064);
  EXPECT_DOUBLE_EQ(TensorVolume(VolumeForm::kPerGpu, 128, 4096, 4), 1572864);
  EXPECT_DOUBLE_EQ(TensorVolume(VolumeForm::kPerGpu, 128, 4096, 8), 1835008);
  EXPECT_DOUBLE_EQ(CacheVolume(VolumeForm::kThesis, 128, 4096, 32, 4), 1978368);
  EXPECT_DOUBLE_EQ(CacheVolume(VolumeForm::kThesis, 128, 4096, 32, 8), 3239936);
  EXPECT_DOUBLE_EQ(CacheVolume(VolumeForm::kPerGpu, 128, 4096, 32, 4), 1579008);
  EXPECT_DOUBLE_EQ(CacheVolume(VolumeForm::kPerGpu, 128, 4096, 32, 8), 1842176);
  // On one basis no advantage: 1 + H / (2 E).
  EXPECT_NEAR(CacheVolume(VolumeForm::kPerGpu, 128, 4096, 32, 4) /
                  TensorVolume(VolumeForm::kPerGpu, 128, 4096, 4),
              1 + 32.0 / 8192, 1e-12);
}

// Kernels at a memory bandwidth of 768 GB/s and 100 TFLOP/s, transfers at 56 GB/s and 10 us.
class A5000Costs : public DeviceCosts {
 public:
  Estimate Kernel(const KernelWork& work) const override {
    const double us =
        std::max(static_cast<double>(work.total_bytes()) / 768e3, work.flop.count() / 100e6);
    return {SimTime::FromUs(2 + us), EstimateSource::kAnalytic, false};
  }
  Estimate Collective(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    const double share = (ranks - 1.0) / ranks * (op == CollectiveOp::kAllReduce ? 2 : 1);
    return {SimTime::FromUs(10 + share * static_cast<double>(bytes.count()) / 56e3),
            EstimateSource::kAnalytic, false};
  }
  Estimate Send(int32_t, Bytes) const override { return {}; }
  std::string Source() const override { return "test"; }
};

DecodeScenario LongContext(int64_t batch, int64_t context) {
  DecodeScenario s;
  s.model.family = TransformerFamily::kLlama;
  s.model.hidden = 4096;
  s.model.layers = 1;
  s.model.heads = 32;
  s.model.ffn = 11008;
  s.model.vocabulary = 32000;
  s.model.sequence = 4096;
  s.model = WithDefaults(s.model);
  s.max_batch = batch;
  s.context = context;
  s.spread = 0.3;
  s.kv_memory = Bytes(int64_t{20} << 30);
  s.host_bandwidth = Bandwidth::GBps(25);
  s.table_per_1000_blocks = RealUs(10);
  s.host = RealUs(100);
  return s;
}

// Sections 4.5.2 to 4.5.4: over long contexts cache parallelism has the highest throughput and data
// parallelism the lowest; the host's part is largest of data, smallest of cache parallelism;
// compute is nearly equal; past some batch sequences are evicted and the throughput falls.
TEST(CacheParallelism, TrendsOfTheEvaluation) {
  const A5000Costs costs;
  for (const int64_t context : {20'000, 40'000, 80'000}) {
    const DecodeScenario s = LongContext(128, context);
    const DecodeStep cache = DecodeLayer(s, DecodeParallelism::kCache, costs);
    const DecodeStep data = DecodeLayer(s, DecodeParallelism::kData, costs);
    const DecodeStep tensor = DecodeLayer(s, DecodeParallelism::kTensor, costs);
    EXPECT_GE(cache.tokens_per_s(), tensor.tokens_per_s()) << context;
    EXPECT_GT(tensor.tokens_per_s(), data.tokens_per_s()) << context;
    EXPECT_GT(tensor.host, cache.host);
    EXPECT_NEAR(cache.compute / tensor.compute, 1, 0.15);
    EXPECT_EQ(data.communication, RealUs());
  }
  const auto throughput = [&](int64_t batch) {
    return DecodeLayer(LongContext(batch, 40'000), DecodeParallelism::kCache, costs).tokens_per_s();
  };
  EXPECT_GT(throughput(64), throughput(8));
  EXPECT_LT(throughput(512), throughput(64));
  const DecodeScenario evicting = LongContext(512, 40'000);
  EXPECT_GT(DecodeLayer(evicting, DecodeParallelism::kData, costs).host,
            DecodeLayer(evicting, DecodeParallelism::kTensor, costs).host);
}

// 4.5 us a pass and 0.65 of 450 GB/s. Two ranks, 1 MiB: 4.5 + 1,048,576 / 292,500. Eight ranks,
// 128 KiB: 4.5 + 7 x 131,072 / 292,500; 1 MiB: 9 + 2 x 7/8 x 1,048,576 / 292,500.
TEST(EngineAllReduce, PassesOverTheRanks) {
  const auto engine = LoadEngine("vllm-0.19");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const EngineAllReduce& a = engine->all_reduce;
  const Bandwidth link = Bandwidth::GBps(450);
  EXPECT_NEAR(a.Time(2, Bytes(1 << 20), link).us(), 8.0849, 1e-4);
  EXPECT_NEAR(a.Time(8, Bytes(128 << 10), link).us(), 7.6368, 1e-4);
  EXPECT_NEAR(a.Time(8, Bytes(1 << 20), link).us(), 15.2735, 1e-4);
  EXPECT_TRUE(a.Takes(8, Bytes(8 << 20)));
  EXPECT_FALSE(a.Takes(8, Bytes((8 << 20) + 1)));
  EXPECT_FALSE(a.Takes(3, Bytes(1)));
  EXPECT_FALSE(a.Takes(16, Bytes(1)));
  // Of the device that it was measured on, and of those whose links and chips are such.
  for (const char* device : {"h200-sxm5", "h20", "b200-sxm", "gb200", "b300-sxm", "gb300"}) {
    EXPECT_TRUE(engine->On(device, Bytes(1)).all_reduce.Takes(2, Bytes(1))) << device;
  }
  EXPECT_FALSE(engine->On("a100-sxm4-80gb", Bytes(1)).all_reduce.Takes(2, Bytes(1)));
}

// Llama3 8B (as that study has it) on 16 SN40L: 1,188 tokens/s with 16-way tensor parallelism, of
// which 1,100 were measured. 13 h^2 weights over 1638.4 GB/s and 16 devices: 16,640 ns; 60 hops of
// 150 ns; 60/16 of 8,192 bytes over 50 GB/s: 614.4 ns.
TEST(DataflowPass, LlamaOnSixteenDevices) {
  DataflowPass d;
  d.weights = 13 * 4096 * 4096;
  d.context = 4097;
  d.tensor = 16;
  d.rate = FlopRate::PerSecond(0.9 * 638976.0095214844e9);
  d.memory = Bandwidth::GBps(1638.4000244140625);
  d.link = Bandwidth::GBps(50);
  d.hop = SimTime::FromNs(150);
  const PassTerms t = TermsOf(d);
  EXPECT_NEAR(t.memory.us(), 16.63999975, 1e-6);
  EXPECT_NEAR(t.latency.us(), 9, 1e-12);
  EXPECT_NEAR(t.serialisation.us(), 0.6144, 1e-12);
  EXPECT_NEAR(t.compute.us(), 0.05478, 1e-4);  // vector operations left out
  EXPECT_NEAR(1e6 / TimeOf(d).us(), 1188, 1);
  EXPECT_NEAR(1e6 / TimeOf(d).us() / 1100, 1.08, 0.001);
  // Two stages of eight: 1,221,385 ns, of which 170 from stage to stage.
  d.tensor = 8;
  d.pipeline = 2;
  EXPECT_NEAR(TimeOf(d).us(), 1221.385, 0.01);
}

// Figure 20, prefill and decode under five mappings: terms of a layer to the vector operations that
// are left out (0.17 % of the FLOP at most), the rest exactly; passes, and tokens/s of 16,384
// requests, whose pipeline fills once, with a margin of that study's solver of 0.1 %.
TEST(DataflowPass, PublishedMappings) {
  const std::string file = RealData("dfmodel/serving.csv");
  FORETRACE_SKIP_WITHOUT(file);
  const std::vector<std::map<std::string, std::string>> rows = CsvRows(file);
  ASSERT_EQ(rows.size(), 10);
  for (const auto& row : rows) {
    const auto number = [&](const char* name) { return std::stod(row.at(name)); };
    DataflowPass p;
    const bool decode = row.at("phase") == "decode";
    p.weights = 13 * 4096 * 4096;
    p.tokens = static_cast<int64_t>(number("seq_len_new_tokens"));
    p.context = decode ? static_cast<int64_t>(number("kv_len")) : 0;
    p.reads_weights = decode;
    p.tensor = static_cast<int32_t>(number("TP"));
    p.pipeline = static_cast<int32_t>(number("PP"));
    p.rate = FlopRate::PerSecond(0.9F * number("GFLOPS_per_chip") * 1e9);
    p.memory = Bandwidth::GBps(number("DRAM_BW_GBps"));
    p.link = Bandwidth::GBps(number("Link_BW_GBps"));
    p.hop = SimTime::FromNs(150);
    SCOPED_TRACE(row.at("phase") + " tp" + row.at("TP"));
    const PassTerms t = TermsOf(p);
    const double compute = number("Compute_Latency_ns_per_layer") * 1e-3;
    EXPECT_NEAR(t.compute.us() / compute, 1, 0.0017);
    EXPECT_NEAR(t.memory.us(), number("Memory_Latency_ns_per_layer") * 1e-3, 1e-5);
    EXPECT_NEAR(t.latency.us(), number("link_latency_allreduce_node_ns") * 1e-3, 1e-9);
    EXPECT_NEAR(t.serialisation.us(), number("serialization_latency_allreduce_node_ns") * 1e-3,
                1e-9);
    EXPECT_NEAR((t.total() - t.compute).us() + compute, number("Per_Config_II_ns") * 1e-3, 1e-5);
    EXPECT_NEAR(TimeOf(p).us() / (number("final_latency_ns") * 1e-3), 1, decode ? 1e-5 : 8e-4);
    const double requests = number("global_batch_size");
    EXPECT_NEAR(PassTokensPerSecond(p) / (requests * p.tokens / number("final_ii_s")), 1, 0.0028);
  }
}

// Four tokens of which each is right with 0.8: 1 + 0.8 + 0.64 + 0.512 + 0.4096.
TEST(Speculation, TokensOfAStep) {
  Speculation s = {DraftShape::kSequence, 4, 1, {0.8}};
  EXPECT_NEAR(s.TokensPerStep(), 3.3616, 1e-12);
  EXPECT_EQ(s.CheckedTokens(), 5);
  // Two candidates a position: 1 - 0.2^2 = 0.96; 1 + 2 + 4 + 8 + 16 tokens are checked.
  s = {DraftShape::kTree, 4, 2, {0.8}};
  EXPECT_NEAR(s.TokensPerStep(), 1 + 0.96 + 0.9216 + 0.884736 + 0.84934656, 1e-12);
  EXPECT_EQ(s.CheckedTokens(), 31);
  double sum = 0;
  for (int i = 0; i < 20000; ++i) sum += s.Draw(static_cast<uint64_t>(i), 7);
  EXPECT_NEAR(sum / 20000, s.TokensPerStep(), 0.03);
  s.window = 40;
  EXPECT_FALSE(s.Validate().ok());
}

// The models' steps on 16 SN40L are those of the closed form where all devices share every layer:
// 13 h^2 weights of Llama 3 8B; a window of four checks five tokens at once, which share weights.
// What is published is up to 0.1 % more, a margin of that study's solver.
TEST(Speculation, PublishedSteps) {
  const std::string file = RealData("dfmodel/spec_decoding.csv");
  FORETRACE_SKIP_WITHOUT(file);
  int seen = 0;
  for (const auto& row : CsvRows(file)) {
    if (row.at("model") != "llama3_8B") continue;
    ++seen;
    DataflowPass p;
    p.weights = 13 * 4096 * 4096;
    p.tokens = std::stoi(row.at("new_tokens"));
    p.context = 4097;
    p.tensor = std::stoi(row.at("TP"));
    p.rate = FlopRate::PerSecond(0.9F * std::stod(row.at("GFLOPS_per_chip")) * 1e9);
    p.memory = Bandwidth::GBps(std::stod(row.at("DRAM_BW")));
    p.link = Bandwidth::GBps(std::stod(row.at("Link_BW")));
    p.hop = SimTime::FromNs(150);
    const double more = std::stod(row.at("ii_per_step_s")) / (TimeOf(p).seconds()) - 1;
    EXPECT_GT(more, 0) << row.at("role");
    EXPECT_LT(more, 0.00101) << row.at("role");
  }
  EXPECT_EQ(seen, 2);
}

// Figure 21: Llama 3 405B with drafts of 68M, 8B and 70B; seconds a step on 16 SN40L.
TEST(Speculation, DraftsOfFigure21) {
  constexpr RealSeconds k68m(8.11989204987616e-05), k8b(8.427357845295114e-04),
      k70b(5.754436341044073e-03), k405b(3.15072690736469e-02);
  const double plain = 1 / k405b.seconds();
  for (int32_t window = 1; window < 8; ++window) {
    for (const double right : {0.5, 0.7, 0.9}) {
      for (const RealSeconds draft : {k68m, k8b}) {
        EXPECT_GT(SequenceRate(window + 1, right, draft, k405b),
                  SequenceRate(window, right, draft, k405b));
        EXPECT_GT(SequenceRate(window, right + 0.05, draft, k405b),
                  SequenceRate(window, right, draft, k405b));
      }
      EXPECT_GT(SequenceRate(window, right, k8b, k405b), SequenceRate(window, right, k70b, k405b));
    }
  }
  // A tree of the smallest draft pays while it is short; of larger ones it soon costs more.
  EXPECT_GT(TreeRate(4, 2, 0.7, k68m, k405b), SequenceRate(4, 0.7, k68m, k405b));
  EXPECT_LT(TreeRate(10, 2, 0.7, k68m, k405b), TreeRate(5, 2, 0.7, k68m, k405b));
  EXPECT_LT(TreeRate(4, 2, 0.7, k70b, k405b), plain);
}

// One request a second of 100 tokens and 10, on engines of 1 and of 4 devices.
TEST(DeploymentSearch, TheBestIsFirst) {
  std::vector<Request> requests;
  for (int i = 0; i < 40; ++i) requests.push_back(At(100 * i, 100, 10));
  const RequestTrace trace = TraceOf(requests);
  ServingPlan one, four;
  four.tensor = 4;
  const std::vector<Candidate> candidates = {{one, 1, 0, 4, 64}, {four, 1, 0, 4, 64}};
  const auto deploy = [](const Candidate& c) -> absl::StatusOr<Deployment> {
    return DeploymentOf(SmallEngine(), 20000.0 / c.plan.tensor, 0);
  };
  ServiceLevel level;
  level.tpot = RealSeconds(0.01);
  const auto outcome =
      SearchDeployments(trace, candidates, deploy, level, [](size_t) { return true; });
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ranked.front().candidate.plan.tensor, 4);
  EXPECT_DOUBLE_EQ(outcome->ranked.front().summary.met_share, 1);
  EXPECT_DOUBLE_EQ(outcome->ranked.back().summary.met_share, 0);
  EXPECT_TRUE(outcome->ranked.front().pareto);  // faster for each user
}

// Ten a second, each of two steps for its prompt and nine after them, of 5 ms: 55 ms. Ten answers'
// time has 10 x 10 x 0.055 = 5.5 of them, so that five are too few and six are not.
TEST(DeploymentSearch, SaysThatRequestsAreTooFew) {
  const auto deploy = [](const Candidate&) -> absl::StatusOr<Deployment> {
    return DeploymentOf(SmallEngine(), 5000.0, 0);
  };
  for (const int count : {5, 6}) {
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) requests.push_back(At(100 * i, 100, 10));
    const auto outcome = SearchDeployments(TraceOf(requests), {{ServingPlan(), 1, 0, 4, 64}},
                                           deploy, {}, [](size_t) { return true; });
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->requests_wanted, count == 5 ? 6 : 0);
    EXPECT_EQ(SearchText(*outcome, 1).find("5 requests are too few") != std::string::npos,
              count == 5);
  }
  // A user who waits for each answer is kept up with, however few.
  const auto waits = [&](const Candidate& candidate) {
    absl::StatusOr<Deployment> d = deploy(candidate);
    d->concurrency = 1;
    return d;
  };
  const auto outcome =
      SearchDeployments(TraceOf({At(0, 100, 10), At(0, 100, 10)}), {{ServingPlan(), 1, 0, 4, 64}},
                        waits, {}, [](size_t) { return true; });
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->requests_wanted, 0);
}

// Sixty-four sequences or more where no step has so many: one line of the table. How many there are
// is of all configurations, of those below the table too: one of the faster plan, two of the
// slower.
TEST(DeploymentSearch, ThatDifferInLimitsAloneAreOneLine) {
  const RequestTrace trace = TraceOf({At(0, 100, 10), At(100, 100, 10)});
  ServingPlan slow;
  slow.tensor = 2;
  const ServingPlan fast;
  const std::vector<Candidate> candidates = {{fast, 1, 0, 64, 64},
                                             {fast, 1, 0, 256, 64},
                                             {slow, 1, 0, 64, 64},
                                             {slow, 1, 0, 256, 64},
                                             {slow, 1, 0, 1024, 64}};
  const auto deploy = [](const Candidate& c) -> absl::StatusOr<Deployment> {
    return DeploymentOf(SmallEngine(), c.plan.tensor == 1 ? 20000.0 : 30000.0, 0);
  };
  const auto outcome =
      SearchDeployments(trace, candidates, deploy, {}, [](size_t) { return true; });
  ASSERT_TRUE(outcome.ok());
  for (const size_t top : {1, 10}) {
    const std::string text = SearchText(*outcome, top);
    EXPECT_NE(text.find("64 seqs, 64 tokens"), std::string::npos) << text;
    EXPECT_EQ(text.find("256 seqs, 64 tokens "), std::string::npos) << text;
    EXPECT_NE(text.find("3 of 5 configurations differ from another in limits of a step alone"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace foretrace::serve
