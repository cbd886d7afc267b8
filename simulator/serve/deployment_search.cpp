#include "simulator/serve/deployment_search.h"

#include <algorithm>
#include <array>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"

namespace foretrace::serve {
namespace {

bool Better(const EvaluatedCandidate& a, const EvaluatedCandidate& b) {
  const auto key = [](const EvaluatedCandidate& e) {
    return std::tuple(-e.summary.goodput_requests_per_s, e.summary.e2e.mean, e.candidate.devices());
  };
  return key(a) < key(b);
}

void MarkPareto(std::vector<EvaluatedCandidate>& all) {
  for (EvaluatedCandidate& e : all) {
    e.pareto = std::none_of(all.begin(), all.end(), [&](const EvaluatedCandidate& o) {
      const double gpu = o.summary.tokens_per_s_per_gpu - e.summary.tokens_per_s_per_gpu;
      const double user = o.summary.tokens_per_s_per_user - e.summary.tokens_per_s_per_user;
      return gpu >= 0 && user >= 0 && (gpu > 0 || user > 0);
    });
  }
}

// What the best has over the best of another parallelism.
std::string Why(const std::vector<EvaluatedCandidate>& ranked) {
  const EvaluatedCandidate& best = ranked.front();
  const auto text = [](const EvaluatedCandidate& e) {
    return fmt::format("{:.2f} requests/s within the level, TTFT {:.0f} ms, TPOT {:.1f} ms",
                       e.summary.goodput_requests_per_s, e.summary.ttft.mean.ms(),
                       e.summary.tpot.mean.ms());
  };
  std::string why = fmt::format("{}: {}", Text(best.candidate), text(best));
  for (const EvaluatedCandidate& e : ranked) {
    if (Text(e.candidate.plan) == Text(best.candidate.plan)) continue;
    return why +
           fmt::format("; the best of another parallelism, {}: {}", Text(e.candidate), text(e));
  }
  return why;
}

}  // namespace

std::string Text(const Candidate& c) {
  std::string text = Text(c.plan);
  if (c.decode_engines > 0) {
    text += fmt::format(" x {} prefill + {} decode", c.engines, c.decode_engines);
  } else {
    text += fmt::format(" x {}", c.engines);
  }
  return text + fmt::format(", {} seqs, {} tokens", c.max_num_seqs, c.max_num_batched_tokens);
}

std::vector<Candidate> Candidates(const TransformerConfig& model, int32_t gpus) {
  std::vector<Candidate> all;
  const auto limits = [&](const ServingPlan& plan, int32_t engines, int32_t decode) {
    for (const int32_t seqs : {64, 256, 1024}) {
      for (const int32_t tokens : {2048, 8192})
        all.push_back({plan, engines, decode, seqs, tokens});
    }
  };
  for (int32_t tensor = 1; tensor <= gpus && tensor <= model.heads; tensor *= 2) {
    for (int32_t pipeline = 1; pipeline * tensor <= gpus; ++pipeline) {
      for (const bool expert : {false, true}) {
        ServingPlan plan;
        plan.tensor = tensor;
        plan.pipeline = pipeline;
        plan.expert = expert;
        if ((expert && tensor == 1) || gpus % plan.devices() != 0 || !plan.Fits(model).ok())
          continue;
        const int32_t engines = gpus / plan.devices();
        limits(plan, engines, 0);
        int32_t before = 0;
        for (const int32_t quarters : {1, 2, 3}) {
          const int32_t prefill = engines * quarters / 4;
          if (prefill > before && prefill < engines) limits(plan, prefill, engines - prefill);
          before = std::max(before, prefill);
        }
      }
    }
  }
  return all;
}

absl::StatusOr<SearchOutcome> SearchDeployments(
    const RequestTrace& trace, const std::vector<Candidate>& candidates,
    const std::function<absl::StatusOr<Deployment>(const Candidate&)>& deploy,
    const ServiceLevel& level, const std::function<bool(size_t)>& progress) {
  SearchOutcome outcome;
  const auto refuse = [&](const absl::Status& status) {
    ++outcome.infeasible;
    if (outcome.first_refusal.empty()) outcome.first_refusal = std::string(status.message());
  };
  for (const Candidate& candidate : candidates) {
    if (!progress(outcome.evaluated)) {
      outcome.stopped = true;
      break;
    }
    ++outcome.evaluated;
    const auto deployment = deploy(candidate);
    if (!deployment.ok()) {
      if (!absl::IsFailedPrecondition(deployment.status())) return deployment.status();
      refuse(deployment.status());
      continue;
    }
    const auto result = Simulate(trace, *deployment);
    if (!result.ok()) {
      if (!absl::IsFailedPrecondition(result.status())) return result.status();
      refuse(result.status());
      continue;
    }
    EvaluatedCandidate e;
    e.candidate = candidate;
    e.summary = Summarize(trace, *result, level, candidate.devices(), Since::kArrival);
    e.overloaded_from = result->overloaded_from;
    // Users who wait for answers send no more than they get.
    if (deployment->concurrency == 0) e.arrivals_per_s = ArrivalRate(result->outcomes);
    outcome.ranked.push_back(std::move(e));
  }
  if (outcome.ranked.empty()) {
    if (outcome.stopped)
      return absl::CancelledError("stopped before a configuration was evaluated");
    return Infeasible("none of {} configurations is feasible; the first: {}", candidates.size(),
                      outcome.first_refusal);
  }
  std::stable_sort(outcome.ranked.begin(), outcome.ranked.end(), Better);
  MarkPareto(outcome.ranked);
  outcome.why = Why(outcome.ranked);
  const EvaluatedCandidate& best = outcome.ranked.front();
  const double wanted = RequestsThatTell(best.arrivals_per_s, best.summary.e2e.mean);
  if (wanted > static_cast<double>(best.summary.requests)) {
    outcome.requests_wanted = static_cast<int64_t>(std::min(wanted, 1e15));
  }
  return outcome;
}

namespace {

// Beside limits of a step, which may be such as no step reaches, or as change no order.
bool OnlyLimitsDiffer(const EvaluatedCandidate& a, const EvaluatedCandidate& b) {
  const ServingSummary &x = a.summary, &y = b.summary;
  return x.time == y.time && x.ttft.mean == y.ttft.mean && x.tpot.mean == y.tpot.mean &&
         x.e2e.mean == y.e2e.mean && x.goodput_requests_per_s == y.goodput_requests_per_s &&
         a.candidate.engines == b.candidate.engines &&
         a.candidate.decode_engines == b.candidate.decode_engines &&
         Text(a.candidate.plan) == Text(b.candidate.plan);
}

// Without those that take the same as one before them.
std::vector<const EvaluatedCandidate*> Different(const std::vector<EvaluatedCandidate>& ranked) {
  std::vector<const EvaluatedCandidate*> different;
  for (const EvaluatedCandidate& e : ranked) {
    const bool seen = std::ranges::any_of(
        different, [&](const auto* other) { return OnlyLimitsDiffer(*other, e); });
    if (!seen) different.push_back(&e);
  }
  return different;
}

}  // namespace

std::string SearchText(const SearchOutcome& outcome, size_t top) {
  std::string text =
      fmt::format("Verdict: {}\n{} configurations, {} of them infeasible{}\n\n", outcome.why,
                  outcome.evaluated, outcome.infeasible, outcome.stopped ? ", stopped early" : "");
  if (outcome.requests_wanted > 0) {
    const EvaluatedCandidate& best = outcome.ranked.front();
    text.insert(text.size() - 1,
                fmt::format("Note: {} requests are too few to tell which configurations keep up "
                            "with {:.1f} a second, and their order may be another with more; {} "
                            "would tell of the first\n",
                            best.summary.requests, best.arrivals_per_s, outcome.requests_wanted));
  }
  std::vector<const EvaluatedCandidate*> shown = Different(outcome.ranked);
  const size_t alike = outcome.ranked.size() - shown.size();
  shown.resize(std::min(shown.size(), top));
  size_t width = std::string_view("configuration").size();
  for (const EvaluatedCandidate* e : shown) width = std::max(width, Text(e->candidate).size());
  text += fmt::format("{:<{}} {:>9} {:>9} {:>9} {:>9} {:>10}\n", "configuration", width,
                      "goodput/s", "TTFT ms", "TPOT ms", "tok/s/GPU", "tok/s/user");
  for (const EvaluatedCandidate* e : shown) {
    text += fmt::format(
        "{:<{}} {:>9.2f} {:>9.1f} {:>9.2f} {:>9.1f} {:>10.1f}{}{}\n", Text(e->candidate), width,
        e->summary.goodput_requests_per_s, e->summary.ttft.mean.ms(), e->summary.tpot.mean.ms(),
        e->summary.tokens_per_s_per_gpu, e->summary.tokens_per_s_per_user, e->pareto ? " *" : "",
        e->overloaded_from == SimTime::Max() ? "" : " overloaded");
  }
  text += "\n* on the Pareto front of tokens/s a GPU and a user\n";
  if (alike > 0) {
    text += fmt::format(
        "{} of {} configurations differ from another in limits of a step alone and take the same: "
        "one line stands for all\n",
        alike, outcome.ranked.size());
  }
  return text;
}

std::string SearchJson(const SearchOutcome& outcome) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("evaluated", static_cast<uint64_t>(outcome.evaluated));
  out.Field("infeasible", static_cast<uint64_t>(outcome.infeasible));
  out.Field("stopped", outcome.stopped);
  out.Field("why", outcome.why);
  out.Field("requests_wanted", outcome.requests_wanted);
  out.Key("configurations");
  out.StartArray();
  for (const EvaluatedCandidate& e : outcome.ranked) {
    out.StartObject();
    out.Field("configuration", Text(e.candidate));
    out.Field("parallel", Text(e.candidate.plan));
    out.Field("engines", e.candidate.engines);
    out.Field("decode_engines", e.candidate.decode_engines);
    out.Field("max_num_seqs", e.candidate.max_num_seqs);
    out.Field("max_num_batched_tokens", e.candidate.max_num_batched_tokens);
    out.Field("devices", e.candidate.devices());
    out.Field("goodput_requests_per_s", e.summary.goodput_requests_per_s);
    out.Field("service_level_met_share", e.summary.met_share);
    out.Field("ttft_mean_s", e.summary.ttft.mean.seconds());
    out.Field("ttft_p99_s", e.summary.ttft.p99.seconds());
    out.Field("tpot_mean_s", e.summary.tpot.SecondsOrNone(e.summary.tpot.mean));
    out.Field("e2e_mean_s", e.summary.e2e.mean.seconds());
    out.Field("tokens_per_s_per_gpu", e.summary.tokens_per_s_per_gpu);
    out.Field("tokens_per_s_per_user", e.summary.tokens_per_s_per_user);
    out.Field("pareto", e.pareto);
    out.Field("overloaded", e.overloaded_from != SimTime::Max());
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace::serve
