#include <functional>
#include <memory>
#include <string>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/planning/serving/serving_job.h"
#include "simulator/serve/deployment_search.h"
#include "simulator/serve/expert_transfers.h"
#include "simulator/serve/serving_report.h"

namespace foretrace {
namespace {

struct ServeOptions {
  ServingOptions serving;
  std::string timeline;
  bool search = false;
  int32_t gpus = 0, top = 10;
  bool json = false, energy = false;
  // Of these options, the first that was given.
  std::function<std::string(std::initializer_list<const char*>)> first_given;
};

// What the other options leave without effect is not given.
absl::Status CheckOptions(const ServeOptions& o) {
  const ServingOptions& s = o.serving;
  const auto idle = [](const std::string& option, std::string_view why) {
    return InvalidInput("{} would change nothing: {}", option, why);
  };
  if (o.search) {
    const std::string given =
        o.first_given({"--parallel", "--replicas", "--decode-engines", "--max-num-seqs",
                       "--max-num-batched-tokens", "--timeline"});
    if (!given.empty()) return idle(given, "--search tries values of its own");
  } else if (s.replicas + s.decode_engines == 1 && !o.first_given({"--routing"}).empty()) {
    return idle("--routing", "there is one engine (--replicas)");
  }
  if (!o.timeline.empty()) FORETRACE_RETURN_IF_ERROR(CheckTimelineName(o.timeline));
  if (!s.draft.empty() && s.speculate.empty()) {
    return idle("--draft", "--speculate says how many tokens it drafts, and how good they are");
  }
  if (s.concurrency > 0 && !o.first_given({"--rate"}).empty()) {
    return idle("--rate", "with --concurrency, users ask when they have their answer");
  }
  const bool draws = s.requests.empty() &&
                     ((s.generator.rate > 0 && s.concurrency == 0) ||
                      (s.generator.input + s.generator.output).find(':') != std::string::npos);
  if (!draws && !o.first_given({"--seed"}).empty()) {
    return idle("--seed", "neither arrivals nor lengths are drawn");
  }
  return absl::OkStatus();
}

// The requests; --prefix-block matters to them where it is given.
absl::StatusOr<serve::RequestTrace> RequestsOf(const ServeOptions& o, ServingBase& base) {
  FORETRACE_ASSIGN_OR_RETURN(serve::RequestTrace trace,
                             LoadRequests(o.serving, ContextOf(o.serving, base.model), base.notes));
  if (trace.prefix_ids.empty() && !o.first_given({"--prefix-block"}).empty()) {
    return InvalidInput("--prefix-block would change nothing: {} names no prefixes",
                        o.serving.requests);
  }
  TakeLongest(o.serving, trace, base);
  return trace;
}

// How tokens go to experts of other devices; empty: none do.
std::string ExchangeText(const TransformerConfig& model, const ServingJob& job) {
  const serve::ExpertTransfers& experts = job.deployment.pool.config.experts;
  const bool sends = serve::SendsTokens(model, job.plan, experts.prompts) ||
                     serve::SendsTokens(model, job.plan, experts.decodes);
  return sends ? Text(experts) : "";
}

// Ranks of one replica have all of its tokens; only DeepEP has each send a part of them.
absl::Status CheckExpertExchange(const ServeOptions& o, const ServingBase& base,
                                 const ServingJob& job) {
  if (o.serving.expert_exchange.empty() || !ExchangeText(base.model, job).empty()) {
    return absl::OkStatus();
  }
  return InvalidInput(
      "--expert-exchange {} would change nothing: with --parallel '{}' no tokens go to experts of "
      "other devices; dpN ep divides experts over replicas",
      o.serving.expert_exchange, o.serving.parallel);
}

serve::ServingReport ReportOf(const ServeOptions& options, const ServingBase& base,
                              const ServingJob& job, const serve::RequestTrace& trace,
                              const serve::ServingResult& result) {
  serve::ServingReport report;
  report.model = base.model.name;
  report.platform = base.platform.name;
  report.engine = job.deployment.pool.config.name;
  report.parallel = Text(job.plan);
  report.expert_exchange = ExchangeText(base.model, job);
  report.source = job.deployment.pool.model->Source();
  report.engines = options.serving.replicas;
  report.decode_engines = options.serving.decode_engines;
  report.devices = job.devices;
  report.ledger = job.ledger;
  report.memory_verdict = Verdict(job.ledger);
  report.level = LevelOf(options.serving);
  report.summary = Summarize(trace, result, report.level, job.devices, serve::Since::kArrival);
  report.result = &result;
  report.watts = base.platform.node.accelerator.physical.power_w;
  report.idle_watts = base.costs == nullptr ? 0 : base.costs->IdleWatts();
  report.devices_of_a_step = job.plan.tensor * job.plan.kv;
  report.usd_per_device = base.platform.node.accelerator.physical.price_usd;
  report.notes = base.notes;
  return report;
}

absl::Status Search(const ServeOptions& options, const CommandContext& context) {
  const ServingOptions& s = options.serving;
  FORETRACE_ASSIGN_OR_RETURN(ServingBase base, LoadServingBase(s, options.gpus));
  FORETRACE_ASSIGN_OR_RETURN(const serve::RequestTrace trace, RequestsOf(options, base));
  const int32_t gpus = options.gpus > 0 ? options.gpus : base.platform.node.devices;
  const auto candidates = serve::Candidates(base.model, gpus);
  const auto deploy = [&](const serve::Candidate& c) -> absl::StatusOr<serve::Deployment> {
    ServingOptions one = s;
    one.parallel = Text(c.plan);
    one.replicas = c.engines;
    one.decode_engines = c.decode_engines;
    one.max_num_seqs = c.max_num_seqs;
    one.max_num_batched_tokens = c.max_num_batched_tokens;
    FORETRACE_ASSIGN_OR_RETURN(const ServingJob job, MakeServingJob(base, one));
    return job.deployment;
  };
  const auto progress = [&](size_t done) {
    context.console->Progress("configurations", static_cast<int64_t>(done),
                              static_cast<int64_t>(candidates.size()));
    return !context.stop.stop_requested();
  };
  FORETRACE_ASSIGN_OR_RETURN(
      const serve::SearchOutcome outcome,
      serve::SearchDeployments(trace, candidates, deploy, LevelOf(s), progress));
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("serve", [&] { return SearchJson(outcome); }));
  if (options.json) return context.console->PrintJson("serve", SearchJson(outcome));
  return context.console->Print(SearchText(outcome, static_cast<size_t>(options.top)));
}

absl::Status Serve(const ServeOptions& options, const CommandContext& context) {
  FORETRACE_RETURN_IF_ERROR(CheckOptions(options));
  if (options.search) return Search(options, context);
  FORETRACE_ASSIGN_OR_RETURN(const int32_t devices, DevicesOf(options.serving));
  FORETRACE_ASSIGN_OR_RETURN(ServingBase base, LoadServingBase(options.serving, devices));
  if (options.energy && base.platform.node.accelerator.physical.power_w <= 0) {
    return Infeasible("--energy: the device of {} states no power", options.serving.platform);
  }
  FORETRACE_ASSIGN_OR_RETURN(const serve::RequestTrace trace, RequestsOf(options, base));
  FORETRACE_ASSIGN_OR_RETURN(ServingJob job, MakeServingJob(base, options.serving));
  FORETRACE_RETURN_IF_ERROR(CheckExpertExchange(options, base, job));
  job.deployment.keep_steps = options.json || !options.timeline.empty();
  FORETRACE_ASSIGN_OR_RETURN(const serve::ServingResult result,
                             serve::Simulate(trace, job.deployment));
  if (!options.timeline.empty()) {
    FORETRACE_RETURN_IF_ERROR(serve::WriteServingTimeline(result, options.timeline));
  }
  const serve::ServingReport report = ReportOf(options, base, job, trace, result);
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("serve", [&] { return ServingJson(report); }));
  if (options.json) return context.console->PrintJson("serve", ServingJson(report));
  return context.console->Print(ServingText(report));
}

void AddExpertOptions(CLI::App& command, ServingOptions& o) {
  command
      .add_option(
          "--expert-exchange", o.expert_exchange,
          "tokens to experts of other devices: allgather (with reduce-scatter), alltoall, "
          "deepep (normal kernels in steps with prompts, else low latency), deepep-normal or "
          "deepep-low-latency (default: the engine's)")
      ->check(CLI::IsMember(serve::ExpertTransferNames()));
  command
      .add_option("--redundant-experts", o.redundant_experts,
                  "copies of experts beside the model's own, such as 32 for EP72 of DeepSeek-V3")
      ->check(CLI::Range(1, 1 << 16));
}

void AddEngineOptions(CLI::App& command, ServingOptions& o) {
  command
      .add_option("--engine", o.engine,
                  "engine and release, a file in topologies/engines/ or a path")
      ->capture_default_str();
  command
      .add_option(
          "--max-num-seqs", o.max_num_seqs,
          "sequences of a step: on each rank of dpN as vLLM has it, on all together as SGLang "
          "(limits_of_each_rank of --engine, whose own is the default)")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--max-num-batched-tokens", o.max_num_batched_tokens,
                  "tokens of a step, of ranks as --max-num-seqs (default: the engine's)")
      ->check(CLI::Range(1, 1 << 24));
  command
      .add_option(
          "--max-model-len", o.max_model_len,
          "longest request (default: the model's sequence in training, or the longest of these "
          "requests, at most the model's context)")
      ->check(CLI::Range(1, 1 << 28));
  command.add_option("--block-tokens", o.block_tokens, "tokens of a KV block")
      ->check(CLI::Range(1, 1 << 16));
  command
      .add_option("--kv-blocks", o.kv_blocks,
                  "blocks of the KV cache, of each rank of dpN (default: what memory has)")
      ->check(CLI::Range(int64_t{1}, (int64_t{1} << 31) - 1));
  command
      .add_option("--memory-utilization", o.memory_utilization,
                  "share of a device's memory that the engine takes (default: the engine's)")
      ->check(CLI::Range(0.01, 1.0));
  command
      .add_option("--weights", o.weights,
                  "of the layers' GEMMs: model, fp8, fp8_block, mxfp4 or int4 (default: as the "
                  "model's checkpoint)")
      ->check(CLI::IsMember(EnumNames<WeightFormat>()));
  command
      .add_option("--kv-cache-dtype", o.kv_cache_dtype,
                  "of keys and values: auto (the model's) or fp8")
      ->check(CLI::IsMember({"auto", "fp8"}));
  command.add_option("--policy", o.policy, "fcfs or priority (default: the engine's)")
      ->check(CLI::IsMember({"fcfs", "priority"}));
  command
      .add_option("--preemption", o.preemption,
                  "of sequences that give way: recompute, or swap to the tiers (default: the "
                  "engine's)")
      ->check(CLI::IsMember({"recompute", "swap"}));
  command
      .add_option("--kv-tier", o.kv_tiers,
                  "keys and values that leave a device go to its share of NAME:GiB:GB/s or "
                  "NAME:GiB:GB/s:us (repeat for further tiers)")
      ->type_name("TIER");
  command.add_option("--without", o.without,
                     "features to turn off: chunked-prefill, prefix-caching, async, graphs");
  command.add_option("--speculate", o.speculate,
                     "drafts: sequence:WINDOW:ACCEPTANCE or tree:WINDOW:BRANCHES:ACCEPTANCE");
  command.add_option("--draft", o.draft, "with --speculate: the draft's model");
  command.add_option(
      "--draft-parallel", o.draft_parallel,
      "with --draft: its devices, of its own, as --parallel (default: the target's)");
}

void AddRequestOptions(CLI::App& command, ServingOptions& o) {
  auto* file = command
                   .add_option("--requests", o.requests,
                               "arrivals and lengths: CSV, Azure, Mooncake, ShareGPT "
                               "(docs/serving.md)")
                   ->type_name("FILE");
  command
      .add_flag("--skip-too-long", o.skip_too_long,
                "with --requests: leave out requests longer than the context")
      ->needs("--requests");
  command.add_option("--prefix-block", o.prefix_block, "tokens that a prefix id stands for")
      ->needs("--requests")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--rate", o.generator.rate, "generated requests a second (0: all at once)")
      ->check(CLI::Range(0.0, 1e9))
      ->excludes(file);
  command.add_option("--count", o.generator.count, "generated requests")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str()
      ->excludes(file);
  command
      .add_option("--input", o.generator.input,
                  "their prompts: TOKENS, uniform:LOW:HIGH or lognormal:MEAN:SIGMA")
      ->capture_default_str()
      ->excludes(file);
  command.add_option("--output", o.generator.output, "their answers, as --input")
      ->capture_default_str()
      ->excludes(file);
  command.add_option("--seed", o.generator.seed, "of the generator")->capture_default_str();
  command
      .add_option("--concurrency", o.concurrency,
                  "users that each wait for an answer before they ask again, instead of arrivals")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--ttft", o.ttft_ms, "service level: time to first token, ms")
      ->check(CLI::Range(1e-6, 1e9));
  command.add_option("--tpot", o.tpot_ms, "service level: time per output token, ms")
      ->check(CLI::Range(1e-6, 1e9));
  command.add_option("--e2e", o.e2e_ms, "service level: end to end, ms")
      ->check(CLI::Range(1e-6, 1e9));
}

// What is answered and written.
void AddAnswerOptions(CLI::App& command, ServeOptions& o) {
  auto* search =
      command.add_flag("--search", o.search,
                       "rank configurations of --gpus devices instead: parallelism, engines, "
                       "pools, limits of steps");
  command.add_option("--gpus", o.gpus, "with --search: devices (default: of a node)")
      ->needs("--search")
      ->check(CLI::Range(0, 1 << 16));
  command.add_option("--top", o.top, "with --search: configurations to show")
      ->needs("--search")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_flag("--energy", o.energy,
                "refuse a device that states no power; of others every report has the energy")
      ->excludes(search);
  command
      .add_option("--timeline", o.timeline,
                  "write steps and requests for ui.perfetto.dev (.json or .pftrace; .gz behind "
                  "either)")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_flag("--json", o.json, "one JSON document on standard output");
}

}  // namespace

void AddServeCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<ServeOptions>();
  ServingOptions& s = o->serving;
  CLI::App* command = app.add_subcommand(
      "serve", "inference of a language model: time to first token, time per token, throughput");
  o->first_given = [command](std::initializer_list<const char*> names) {
    return command->FirstGiven(names);
  };
  command
      ->add_option(
          "model", s.model,
          "workload file, Hugging Face's config.json or the folder with it, or the name of "
          "one in traces/workloads/ or of its publisher")
      ->required();
  command->add_option("--platform", s.platform, "platform file, or the name of one in topologies/")
      ->required();
  command
      ->add_option("--parallel", s.parallel,
                   "of one engine: tpN ppN dpN kvpN ep, spaces between them")
      ->capture_default_str();
  command->add_option("--replicas", s.replicas, "engines behind the router")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--decode-engines", s.decode_engines,
                   "engines that decode; those of --replicas then prefill alone")
      ->check(CLI::Range(0, 4096));
  command
      ->add_option("--routing", s.routing,
                   "round-robin, least-loaded, prefix-aware or shortest-queue")
      ->capture_default_str();
  command
      ->add_option("--kernels", s.kernels,
                   "calibration of the device: a folder, a name in calibration/, or auto")
      ->capture_default_str();
  command
      ->add_option("--step-factors", s.step_factors,
                   "factors of steps that `calibrate serving RUN` fitted to measured runs")
      ->type_name("FILE");
  command
      ->add_option("--operators", s.operators,
                   "table of GEMMs, attention or experts measured on the device, as calibrate "
                   "serving reads (repeat for further ones): taken before --kernels")
      ->type_name("TABLE.csv");
  command->add_option("--profiles", s.profiles, "step times from a layer profile instead")
      ->type_name("DIR");
  AddEngineOptions(*command, s);
  AddExpertOptions(*command, s);
  AddRequestOptions(*command, s);
  AddAnswerOptions(*command, *o);
  command->footer(Examples({
      "foretrace serve llama3.1-8b --platform dgx-h100 --rate 10 --count 500 --input 1024",
      "foretrace serve llama3.1-70b --platform dgx-h100 --parallel tp4 --replicas 2 --requests "
      "azure.csv --ttft 500 --tpot 50",
      "foretrace serve llama3.1-8b --platform dgx-h100 --decode-engines 1 --rate 5 --json",
      "foretrace serve llama3.1-70b --platform dgx-h100 --search --rate 4 --ttft 500 --tpot 40",
      "foretrace serve deepseek-v3 --platform dgx-h100 --engine sglang-0.5 --parallel 'dp32 ep' "
      "--expert-exchange deepep --rate 20",
      "foretrace sweep serve llama3.1-8b --platform dgx-h100 --rate 90 --count 1000 --over "
      "replicas=1:4  # how many engines keep up",
  }));
  command->callback([o, &context] { context.run = [o, &context] { return Serve(*o, context); }; });
}

}  // namespace foretrace
