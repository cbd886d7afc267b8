#include "simulator/planning/serving/serving_job.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/planning/serving/memory_remedy.h"
#include "simulator/planning/serving/serving_engine.h"
#include "simulator/serve/engine_exchanges.h"
#include "simulator/serve/graph_step_model.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/speculative_step_model.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

absl::StatusOr<serve::Speculation> ParseSpeculation(const std::string& text) {
  serve::Speculation s;
  if (text.empty()) return s;
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  const bool tree = parts[0] == "tree";
  bool good = (tree && parts.size() >= 4) || (parts[0] == "sequence" && parts.size() >= 3);
  good = good && absl::SimpleAtoi(parts[1], &s.window);
  if (tree) good = good && absl::SimpleAtoi(parts[2], &s.branches);
  for (size_t i = tree ? 3 : 2; good && i < parts.size(); ++i) {
    good = absl::SimpleAtod(parts[i], &s.acceptance.emplace_back());
  }
  if (!good) {
    return InvalidInput(
        "--speculate '{}': give sequence:WINDOW:ACCEPTANCE or tree:WINDOW:BRANCHES:ACCEPTANCE; "
        "further acceptances are those of further positions",
        text);
  }
  s.shape = tree ? serve::DraftShape::kTree : serve::DraftShape::kSequence;
  FORETRACE_RETURN_IF_ERROR(s.Validate());
  return s;
}

std::shared_ptr<const serve::StepModel> TargetSteps(const ServingBase& base,
                                                    const serve::ServingPlan& plan,
                                                    const serve::EngineConfig& engine) {
  const auto steps =
      base.profile == nullptr
          ? serve::MakeGraphStepModel(base.model, plan, engine, base.costs)
          : serve::MakeProfileStepModel(base.profile, ProfiledSizes(base.model), engine,
                                        serve::MakeRankExchange(engine, base.costs, plan.tensor));
  return base.factors ? serve::WithFactors(steps, *base.factors) : steps;
}

absl::StatusOr<std::shared_ptr<const serve::StepModel>> StepsOf(const ServingBase& base,
                                                                const serve::ServingPlan& plan,
                                                                const serve::EngineConfig& engine,
                                                                const serve::Speculation& draft,
                                                                const std::string& draft_parallel) {
  if (base.profile != nullptr && (plan.devices() != plan.tensor || plan.expert)) {
    return InvalidInput("--profiles: a layer profile is of tensor parallelism alone");
  }
  if (base.profile != nullptr && plan.tensor != base.profile->tensor) {
    return Infeasible("--profiles {}: is of tensor parallelism {}, not {}", base.profile->folder,
                      base.profile->tensor, plan.tensor);
  }
  const auto steps = TargetSteps(base, plan, engine);
  if (!draft.enabled()) return steps;
  if (!base.draft) return InvalidInput("--speculate needs a --draft MODEL");
  serve::ServingPlan own = plan;
  std::shared_ptr<const serve::TokenExchange> exchange;
  if (!draft_parallel.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(own, serve::ParseServingPlan(draft_parallel));
    if (own.data > 1 || plan.data > 1) {
      return InvalidInput(
          "--draft-parallel {}: data-parallel ranks (dpN) each run the draft on their own devices; "
          "leave it out, or give --replicas instead of dpN",
          draft_parallel);
    }
    exchange = serve::MakeTokenExchange(base.costs, plan.devices());
  }
  FORETRACE_RETURN_IF_ERROR(own.Fits(*base.draft));
  return serve::MakeSpeculativeStepModel(
      steps, serve::MakeGraphStepModel(*base.draft, own, engine, base.costs), draft, exchange);
}

absl::StatusOr<serve::Routing> ParseRouting(const std::string& text) {
  if (const auto routing = ParseEnum<serve::Routing>(text)) return *routing;
  return InvalidInput("--routing '{}' is none of {}", text,
                      fmt::join(EnumNames<serve::Routing>(), ", "));
}

std::optional<RealSeconds> Limit(double ms) {
  return ms > 0 ? std::optional(RealSeconds(RealMs(ms))) : std::nullopt;
}

}  // namespace

serve::ServiceLevel LevelOf(const ServingOptions& options) {
  return {Limit(options.ttft_ms), Limit(options.tpot_ms), Limit(options.e2e_ms)};
}

absl::StatusOr<serve::RequestTrace> LoadRequests(const ServingOptions& options,
                                                 int32_t max_model_len,
                                                 std::vector<std::string>& notes) {
  const bool by_priority = options.policy == "priority";
  if (options.requests.empty()) {
    if (!by_priority) return serve::GenerateRequests(options.generator);
    return InvalidInput(
        "--policy priority would change nothing: generated requests have none; --requests names a "
        "file with the column priority");
  }
  FORETRACE_ASSIGN_OR_RETURN(serve::RequestTrace trace,
                             serve::ReadRequests(options.requests, options.prefix_block, notes));
  if (by_priority && std::ranges::all_of(trace.requests, [&](const serve::Request& request) {
        return request.priority == trace.requests.front().priority;
      })) {
    return InvalidInput("--policy priority would change nothing: {} names no different priorities",
                        options.requests);
  }
  if (!options.skip_too_long) return trace;
  const size_t all = trace.requests.size();
  std::erase_if(trace.requests, [&](const serve::Request& r) {
    return int64_t{r.input_tokens} + r.output_tokens > max_model_len;
  });
  if (trace.requests.empty()) {
    return Infeasible("{}: every request is longer than the context of {}", options.requests,
                      max_model_len);
  }
  if (trace.requests.size() < all) {
    notes.push_back(fmt::format("{} of {} requests are longer than the context of {} and left out",
                                all - trace.requests.size(), all, max_model_len));
  }
  return trace;
}

absl::StatusOr<int32_t> DevicesOf(const ServingOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const serve::ServingPlan plan,
                             serve::ParseServingPlan(options.parallel));
  int64_t engine_devices = plan.devices();
  if (!options.draft_parallel.empty()) {
    if (options.draft.empty()) return InvalidInput("--draft-parallel goes with --draft MODEL");
    FORETRACE_ASSIGN_OR_RETURN(const serve::ServingPlan draft,
                               serve::ParseServingPlan(options.draft_parallel));
    engine_devices += draft.devices();
  }
  const int64_t devices = engine_devices * (options.replicas + options.decode_engines);
  if (devices > kMaxDevices) {
    return InvalidInput("--parallel '{}' of {} engines has more than {} devices", options.parallel,
                        options.replicas + options.decode_engines, kMaxDevices);
  }
  return static_cast<int32_t>(devices);
}

namespace {

absl::StatusOr<ServingJob> MakeJob(const ServingBase& base, const ServingOptions& options,
                                   bool with_remedy);

// Whether a run with these options would start.
bool Starts(const ServingBase& base, const ServingOptions& options) {
  const auto devices = DevicesOf(options);
  if (!devices.ok()) return false;
  auto platform = FindPlatform(options.platform, *devices);
  if (!platform.ok()) return false;
  ServingBase other = base;
  other.platform = *std::move(platform);
  if (options.draft.empty()) other.draft.reset();
  return MakeJob(other, options, false).ok();
}

absl::StatusOr<ServingJob> MakeJob(const ServingBase& base, const ServingOptions& options,
                                   bool with_remedy) {
  ServingJob job;
  FORETRACE_ASSIGN_OR_RETURN(job.plan, serve::ParseServingPlan(options.parallel));
  FORETRACE_RETURN_IF_ERROR(job.plan.Fits(base.model));
  FORETRACE_ASSIGN_OR_RETURN(job.devices, DevicesOf(options));
  if (job.devices > base.platform.devices()) {
    return Infeasible("{} engines of {} need {} devices; platform {} has {}",
                      options.replicas + options.decode_engines, Text(job.plan), job.devices,
                      base.platform.name, base.platform.devices());
  }
  FORETRACE_ASSIGN_OR_RETURN(serve::EngineConfig engine,
                             EngineOf(options, base.model, job.plan, base.platform.node.accelerator,
                                      base.longest_request));
  engine.stages = job.plan.pipeline;
  engine.model_positions = std::max(base.model.sequence, base.model.positions);
  FORETRACE_RETURN_IF_ERROR(
      serve::CheckExpertTransfers(base.model, job.plan, engine.experts, *base.costs));
  const Bytes memory = base.platform.node.accelerator.visible_memory();
  if (memory.count() == 0 && !options.kv_blocks) {
    return InvalidInput("platform {}: its accelerator states no memory; give --kv-blocks",
                        base.platform.name);
  }
  const bool with_draft = base.draft.has_value() && options.draft_parallel.empty();
  job.ledger =
      serve::MakeLedger(base.model, job.plan, engine, memory, with_draft ? &*base.draft : nullptr);
  if (options.kv_blocks && !job.ledger.fits_states()) {
    return Infeasible("{} on {}: {}", base.model.name, base.platform.name, Verdict(job.ledger));
  }
  if (!job.ledger.fits() && !options.kv_blocks) {
    const int64_t held = int64_t{engine.reserved_blocks} * job.ledger.block_tokens;
    return Infeasible("{} on {}: {}{}", base.model.name, base.platform.name, Verdict(job.ledger),
                      with_remedy ? MemoryRemedy(base, options, job.plan, job.ledger.tokens - held,
                                                 [&base](const ServingOptions& other) {
                                                   return Starts(base, other);
                                                 })
                                  : "");
  }
  engine.kv_blocks = options.kv_blocks.value_or(
      std::min<int64_t>(job.ledger.blocks, std::numeric_limits<int32_t>::max()));
  engine.window = job.ledger.window;
  engine.block_tokens = job.ledger.block_tokens;
  if (job.ledger.states > Bytes()) {
    engine.max_num_seqs =
        static_cast<int32_t>(std::min<int64_t>(engine.max_num_seqs, job.ledger.most_sequences));
  }
  engine.block_bytes = job.ledger.kv_per_token * engine.block_tokens;
  serve::Deployment& d = job.deployment;
  FORETRACE_ASSIGN_OR_RETURN(d.speculation, ParseSpeculation(options.speculate));
  FORETRACE_ASSIGN_OR_RETURN(d.routing, ParseRouting(options.routing));
  FORETRACE_ASSIGN_OR_RETURN(
      const auto steps, StepsOf(base, job.plan, engine, d.speculation, options.draft_parallel));
  // Without experts to share, ranks are engines of their own.
  const bool in_step = job.plan.expert && job.plan.data > 1;
  d.pool = {engine, steps, options.replicas, job.plan.data, in_step};
  d.concurrency = options.concurrency;
  if (options.decode_engines > 0) {
    d.decode = {engine, steps, options.decode_engines, job.plan.data, in_step};
    d.link = serve::LinkOf(*base.costs, job.plan, job.ledger.kv_per_token);
    d.link.bytes_of_states = job.ledger.state_per_sequence;
  }
  return job;
}

}  // namespace

absl::StatusOr<ServingJob> MakeServingJob(const ServingBase& base, const ServingOptions& options) {
  return MakeJob(base, options, true);
}

}  // namespace foretrace
