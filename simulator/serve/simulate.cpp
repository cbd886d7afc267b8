#include "simulator/serve/simulate.h"

#include <algorithm>
#include <array>
#include <queue>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/overload.h"
#include "simulator/serve/step_group.h"

namespace foretrace::serve {
namespace {

absl::Status CheckFits(const RequestTrace& trace, const EngineConfig& config, int32_t lookahead) {
  const int64_t windows =
      config.window.Most(config.max_model_len, config.max_num_batched_tokens, config.block_tokens);
  const int64_t room = (config.usable_blocks() - windows) * config.block_tokens;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const Request& r = trace.requests[i];
    const int64_t tokens = int64_t{r.input_tokens} + r.output_tokens;
    if (tokens > config.max_model_len) {
      const bool known = config.model_positions == 0 || tokens <= config.model_positions;
      return Infeasible(
          "{}: request {} has {} + {} tokens, more than the context of {}{}: shorten it{}{}",
          trace.source, i, r.input_tokens, r.output_tokens, config.max_model_len,
          known ? "" : fmt::format(" (the model has {} positions)", config.model_positions),
          known ? ", raise --max-model-len" : "",
          trace.generated ? "" : ", or leave such requests out with --skip-too-long");
    }
    if (tokens + lookahead > room) {
      return Infeasible(
          "{}: request {} has {} + {} tokens and can never fit in a KV cache of {} tokens ({} "
          "blocks of {}): give the engine more memory or devices",
          trace.source, i, r.input_tokens, r.output_tokens, room, config.usable_blocks(),
          config.block_tokens);
    }
  }
  return absl::OkStatus();
}

// Runs engines in order of time; of one instant arrivals first, then engines by their numbers.
class Simulation : public ServingObserver {
 public:
  Simulation(const RequestTrace& trace, const Deployment& deployment)
      : trace_(trace), deployment_(deployment), overload_(trace) {
    result_.outcomes.resize(trace.requests.size());
    result_.blocks = deployment.pool.config.usable_blocks();
    AddEngines(deployment.pool);
    first_decode_ = engines_.size();
    first_decode_front_ = fronts_.size();
    if (deployment.disaggregated()) AddEngines(deployment.decode);
    link_free_.resize(engines_.size());
    waiting_.resize(engines_.size());
  }

  ServingResult Run() {
    size_t next = 0;
    const size_t count = trace_.requests.size();
    if (deployment_.concurrency > 0) {
      for (; next < count && next < static_cast<size_t>(deployment_.concurrency); ++next) {
        arrivals_.push({SimTime(), static_cast<SequenceIndex>(next), false});
      }
      next_user_ = next;
    } else {
      for (; next < count; ++next) {
        arrivals_.push({trace_.requests[next].arrival, static_cast<SequenceIndex>(next), false});
      }
      next_user_ = count;
    }
    while (true) {
      ServingEngine* engine = Earliest();
      StepGroup* group = EarliestGroup();
      SimTime wake = engine == nullptr ? SimTime::Max() : engine->wake();
      // At one instant engines first: what they launch takes part.
      if (group != nullptr && (engine == nullptr || group->wake() < wake)) {
        wake = group->wake();
        engine = nullptr;
      }
      if (!arrivals_.empty() && arrivals_.top().at <= wake) {
        const Arrival arrival = arrivals_.top();
        arrivals_.pop();
        Route(arrival);
        continue;
      }
      if (wake == SimTime::Max()) break;
      if (engine == nullptr) {
        group->Start();
      } else {
        engine->Advance();
      }
    }
    return Finish();
  }

  void OnStep(const StepRecord& record, const StepTime& time) override {
    ++result_.step_count;
    result_.time.Add(time);
    result_.peak_blocks = std::max(result_.peak_blocks, record.used_blocks);
    int32_t& own = waiting_[static_cast<size_t>(record.engine)];
    waiting_all_ += record.waiting - own;
    own = record.waiting;
    result_.peak_waiting = std::max(result_.peak_waiting, waiting_all_);
    if (static_cast<size_t>(record.engine) < first_decode_) overload_.OnStep(record);
    if (deployment_.keep_steps) result_.steps.push_back(record);
  }

  void OnTokens(SimTime gap, int32_t tokens) override { result_.gaps.Add(gap, tokens); }

  void OnFinished(SequenceIndex request, int32_t engine, SimTime now) override {
    const Request& r = trace_.requests[static_cast<size_t>(request)];
    const bool prefilled = deployment_.disaggregated() && r.output_tokens > 1 &&
                           static_cast<size_t>(engine) < first_decode_;
    if (prefilled) {
      SimTime& free = link_free_[static_cast<size_t>(engine)];
      const KvLink& link = deployment_.link;
      free = std::max(free, now) +
             (link.bytes_per_token * r.input_tokens + link.bytes_of_states) / link.bandwidth;
      arrivals_.push({free + link.latency, request, true});
      return;
    }
    result_.end = std::max(result_.end, now);
    if (deployment_.concurrency > 0 && next_user_ < trace_.requests.size()) {
      arrivals_.push({now, static_cast<SequenceIndex>(next_user_++), false});
    }
  }

 private:
  struct Arrival {
    SimTime at;
    SequenceIndex request;
    bool prefilled;
    bool operator>(const Arrival& o) const {
      return std::tie(at, request) > std::tie(o.at, o.request);
    }
  };

  // Data-parallel ranks behind one front end.
  struct Front {
    std::vector<ServingEngine*> ranks;
    RankRouting routing;
    size_t turn = 0;

    int64_t load() const {
      return Sum([](const ServingEngine& e) { return e.load(); });
    }
    int64_t queue_score() const {
      return Sum([](const ServingEngine& e) { return e.queue_score(); });
    }
    int32_t CachedTokens(SequenceIndex request) const {
      int32_t most = 0;
      for (const ServingEngine* rank : ranks) {
        most = std::max(most, rank->scheduler().CachedTokens(request));
      }
      return most;
    }
    template <typename F>
    int64_t Sum(const F& of) const {
      int64_t sum = 0;
      for (const ServingEngine* rank : ranks) sum += of(*rank);
      return sum;
    }
    ServingEngine& Choose() {
      if (routing == RankRouting::kRoundRobin) return *ranks[turn++ % ranks.size()];
      return **std::ranges::min_element(
          ranks, {}, [](const ServingEngine* rank) { return rank->queue_score(); });
    }
  };

  void AddEngines(const Pool& pool) {
    FORETRACE_CHECK(pool.ranks > 0);
    for (int32_t i = 0; i < pool.engines; ++i) {
      Front& front = fronts_.emplace_back(Front{{}, pool.config.rank_routing});
      for (int32_t rank = 0; rank < pool.ranks; ++rank) {
        engines_.push_back(std::make_unique<ServingEngine>(
            static_cast<int32_t>(engines_.size()), pool.config, trace_, deployment_.speculation,
            *pool.model, result_.outcomes, *this, pool.in_step));
        front.ranks.push_back(engines_.back().get());
      }
      if (pool.in_step) groups_.emplace_back(front.ranks);
    }
  }

  // Null: no step of one can start.
  StepGroup* EarliestGroup() {
    StepGroup* earliest = nullptr;
    for (StepGroup& group : groups_) {
      if (group.wake() == SimTime::Max()) continue;
      if (earliest == nullptr || group.wake() < earliest->wake()) earliest = &group;
    }
    return earliest;
  }

  ServingEngine* Earliest() {
    ServingEngine* earliest = nullptr;
    for (const auto& engine : engines_) {
      if (engine->wake() == SimTime::Max()) continue;
      if (earliest == nullptr || engine->wake() < earliest->wake()) earliest = engine.get();
    }
    return earliest;
  }

  void Route(const Arrival& arrival) {
    const size_t begin = arrival.prefilled ? first_decode_front_ : 0;
    const size_t end = arrival.prefilled ? fronts_.size() : first_decode_front_;
    const Request& r = trace_.requests[static_cast<size_t>(arrival.request)];
    ServingEngine& engine = fronts_[Choose(arrival.request, begin, end)].Choose();
    const bool hands_over = deployment_.disaggregated() && !arrival.prefilled;
    engine.Deliver(arrival.request, arrival.at, arrival.prefilled ? 1 : 0,
                   hands_over ? 1 : r.output_tokens);
    if (!arrival.prefilled)
      result_.outcomes[static_cast<size_t>(arrival.request)].arrival = arrival.at;
  }

  size_t Choose(SequenceIndex request, size_t begin, size_t end) {
    if (deployment_.routing == Routing::kRoundRobin) {
      size_t& turn = begin == 0 ? turn_ : decode_turn_;
      return begin + turn++ % (end - begin);
    }
    size_t best = begin;
    // Prefix-aware: the longest cached prefix, of these the least loaded.
    const auto rank = [&](size_t e) {
      if (deployment_.routing == Routing::kShortestQueue) {
        return std::pair(0, fronts_[e].queue_score());
      }
      const int32_t cached = deployment_.routing == Routing::kPrefixAware && begin == 0
                                 ? fronts_[e].CachedTokens(request)
                                 : 0;
      return std::pair(-cached, fronts_[e].load());
    };
    for (size_t e = begin + 1; e < end; ++e) {
      if (rank(e) < rank(best)) best = e;
    }
    return best;
  }

  ServingResult Finish() {
    for (const auto& engine : engines_) {
      const Scheduler& s = engine->scheduler();
      FORETRACE_CHECK(s.idle() && s.cache().used_blocks() == 0);
      result_.busy.push_back(engine->busy());
      result_.preemptions += s.preemptions();
      result_.recomputed_tokens += s.recomputed_tokens();
      result_.prefix_hits += s.prefix_hits();
      result_.tier_hits += s.tier_hits();
      result_.prompt_tokens += s.prompt_tokens();
    }
    if (deployment_.concurrency == 0) {
      result_.overloaded_from = overload_.From();
      result_.queued_share = overload_.QueuedShare();
    }
    return std::move(result_);
  }

  const RequestTrace& trace_;
  const Deployment& deployment_;
  ServingResult result_;
  OverloadJudge overload_;
  std::vector<std::unique_ptr<ServingEngine>> engines_;
  std::vector<Front> fronts_;
  std::vector<StepGroup> groups_;
  size_t first_decode_ = 0, first_decode_front_ = 0;  // indices into engines_ and fronts_
  std::vector<SimTime> link_free_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  size_t next_user_ = 0;
  std::vector<int32_t> waiting_;  // requests, by engine
  int32_t waiting_all_ = 0;
  size_t turn_ = 0, decode_turn_ = 0;
};

}  // namespace

std::string_view Name(Routing routing) {
  static constexpr std::array<std::string_view, static_cast<size_t>(Routing::kCount)> kNames = {
      "round-robin", "least-loaded", "prefix-aware", "shortest-queue"};
  return kNames[static_cast<size_t>(routing)];
}

absl::StatusOr<ServingResult> Simulate(const RequestTrace& trace, const Deployment& deployment) {
  if (trace.requests.empty()) return InvalidInput("{}: holds no requests", trace.source);
  FORETRACE_RETURN_IF_ERROR(deployment.speculation.Validate());
  FORETRACE_RETURN_IF_ERROR(deployment.pool.config.Validate());
  const int32_t lookahead = deployment.speculation.CheckedTokens();
  FORETRACE_RETURN_IF_ERROR(CheckFits(trace, deployment.pool.config, lookahead));
  if (deployment.disaggregated()) {
    FORETRACE_RETURN_IF_ERROR(deployment.decode.config.Validate());
    FORETRACE_RETURN_IF_ERROR(CheckFits(trace, deployment.decode.config, lookahead));
    if (deployment.link.bandwidth.bytes_per_second() <= 0) {
      return InvalidInput("the link between prefill and decode engines needs a bandwidth");
    }
  }
  for (const Pool* pool : {&deployment.pool, &deployment.decode}) {
    if (trace.prefix_block_tokens > 0 && pool->engines > 0 && pool->config.prefix_caching &&
        trace.prefix_block_tokens % pool->config.block_tokens != 0) {
      return InvalidInput(
          "{}: prefix blocks of {} tokens are not made of whole KV blocks of {}: take a "
          "--block-tokens that divides",
          trace.source, trace.prefix_block_tokens, pool->config.block_tokens);
    }
  }
  return Simulation(trace, deployment).Run();
}

}  // namespace foretrace::serve
