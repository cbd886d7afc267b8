#pragma once
// Small sharding tasks and the models to simulate them with.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/sharding/evaluator.h"
#include "simulator/sharding/zipf_access.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {

inline EmbeddingTable MakeTable(std::string name, int64_t rows, int64_t dim, double pooling,
                                int64_t batch, double zipf = 1) {
  EmbeddingTable table;
  table.name = std::move(name);
  table.rows = rows;
  table.dim = dim;
  table.pooling = pooling;
  table.access = ZipfAccess(static_cast<int64_t>(pooling * static_cast<double>(batch)), rows, zipf);
  return table;
}

// Without tables; every kind of placement is allowed.
inline ShardingTask MakeTask(int32_t gpus, int64_t batch) {
  ShardingTask task;
  task.file = task.name = "test";
  task.gpus = gpus;
  task.batch = batch;
  task.memory = Bytes(int64_t{32} * 1'000'000'000);
  task.platform = "paper-4xa100";
  task.dense.bottom = {13, 64, 64};
  task.dense.top = {128, 1};
  task.dense.dot_interaction = false;
  task.dense.bucket = Bytes(25 << 20);
  task.cpu = {SimTime::FromUs(4), SimTime::FromUs(5), SimTime::FromUs(3),
              SimTime::FromUs(6), SimTime::FromUs(4), "test"};
  task.allowed.assign(task.allowed.size(), true);
  return task;
}

inline ShardingModels TestModels(const std::string& platform = "paper-4xa100") {
  ShardingModels models;
  auto spec = LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/" + platform + ".yaml");
  FORETRACE_CHECK(spec.ok());
  models.platform = *std::move(spec);
  const auto peaks = PeaksOf(models.platform.node.accelerator);
  FORETRACE_CHECK(peaks.ok());
  models.kernels = std::make_shared<KernelModels>(*peaks, std::vector<KernelModel>());
  return models;
}

inline std::unique_ptr<SimulatedEvaluator> TestEvaluator(
    const ShardingTask& task, JobSemantics semantics = JobSemantics::kFull,
    const std::string& platform = "paper-4xa100") {
  ShardingModels models = TestModels(platform);
  models.semantics = semantics;
  auto evaluator = SimulatedEvaluator::Create(task, std::move(models));
  FORETRACE_CHECK(evaluator.ok());
  return *std::move(evaluator);
}

}  // namespace foretrace
