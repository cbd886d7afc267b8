#include "simulator/serve/step_group.h"

#include <algorithm>

namespace foretrace::serve {

SimTime StepGroup::wake() const {
  SimTime start = SimTime::Max();
  for (ServingEngine* engine : engines_) {
    const ServingEngine::ReadyStep* step = engine->NextReady();
    if (step == nullptr && !engine->sleeps()) return SimTime::Max();  // it is about to launch one
    if (step == nullptr) continue;
    start = std::max(start == SimTime::Max() ? free_ : start, step->ready);
  }
  return start;
}

void StepGroup::Start() {
  const SimTime start = wake();
  std::vector<int32_t> tokens;
  bool prompts = false;
  for (ServingEngine* engine : engines_) {
    const ServingEngine::ReadyStep* step = engine->NextReady();
    tokens.push_back(step == nullptr ? 1 : step->batch.tokens());
    prompts = prompts || (step != nullptr && !step->batch.prefills.empty());
  }
  std::vector<StepTime> times(engines_.size());
  SimTime duration;
  for (size_t e = 0; e < engines_.size(); ++e) {
    ServingEngine::ReadyStep* step = engines_[e]->NextReady();
    if (step == nullptr) continue;
    step->batch.peer_tokens = tokens;
    step->batch.peer_prompts = prompts;
    step->batch.peer_tokens.erase(step->batch.peer_tokens.begin() + static_cast<std::ptrdiff_t>(e));
    times[e] = engines_[e]->model().Time(step->batch);
    duration = std::max(duration, SimTime::FromUs(times[e].us()));
  }
  for (size_t e = 0; e < engines_.size(); ++e) {
    if (engines_[e]->NextReady() != nullptr) engines_[e]->Start(start, duration, times[e]);
  }
  free_ = start + SimTime::FromPs(duration.ps() / engines_.front()->stages());
}

}  // namespace foretrace::serve
