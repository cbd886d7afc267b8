// Uses all of the C++ interface: import, predict, what-if, validate, search, shard, errors.
#include <foretrace/foretrace.h>

#include <cmath>
#include <cstdio>
#include <string>

namespace ft = foretrace::api;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string data = argv[1];
  try {
    const ft::Job job = ft::Job::Import({data + "/traces/samples/dlrm_8rank"});
    const ft::Prediction prediction = ft::Predict(job);
    const ft::Answer answer =
        ft::WhatIf(job, {"name=embedding,rank=4:x0.5"}, {.arguments = {"--iteration", "0"}});
    std::printf("ranks %lld iterations %zu\n", static_cast<long long>(job.rank_count()),
                prediction.iterations().size());
    std::printf("iteration_time_us %.6f saved_us %.6f\n", prediction.iteration_time_us(),
                answer.saved_us());
    const ft::Table ranks = prediction.Rows("ranks");
    std::printf("columns %zu rows %zu\n", ranks.columns.size(), ranks.rows());
    std::printf("steps %zu\n", ft::Validate(job).Rows("cases").rows());
    const ft::SearchResult found =
        ft::Search({.workload = data + "/traces/workloads/gpt-small.yaml",
                    .platform = "dgx-a100",
                    .global_batch = 16});
    std::printf("mapping %s\n", found.mappings().front().mapping.c_str());
    const ft::ShardResult sharded =
        ft::Shard({.task = data + "/traces/samples/dlrm_sharding.yaml", .sharders = {"lpt"}});
    std::printf("plan %s\n", sharded.plans().front().sharder.c_str());
    std::stop_source stop;
    stop.request_stop();
    try {
      ft::Predict(job, {}, {.progress = {}, .tick = {}, .stop = stop.get_token()});
    } catch (const ft::Error& e) {
      std::printf("stopped %d\n", e.kind() == ft::Error::Kind::kStopped);
    }
    ft::Job::Import({"/nowhere"});
  } catch (const ft::Error& e) {
    std::printf("error %d %s\n", static_cast<int>(e.kind()), e.what());
  }
}
