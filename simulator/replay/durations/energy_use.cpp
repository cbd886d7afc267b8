#include "simulator/replay/durations/energy_use.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

absl::StatusOr<std::vector<PowerModel>> ShippedPower() {
  std::vector<PowerModel> all;
  for (const std::string& file : ListShipped("calibration", "power.yaml")) {
    FORETRACE_ASSIGN_OR_RETURN(LoadedPower loaded, LoadPowerModel(file));
    all.push_back(std::move(loaded.model));
  }
  return all;
}

absl::StatusOr<EnergyUse> EnergyOfStep(const TraceStore& store, std::span<const RankSummary> ranks,
                                       SimTime period, const AcceleratorCatalog& accelerators,
                                       std::span<const PowerModel> measured) {
  EnergyUse use;
  use.period = period;
  use.devices = ranks.size();
  const Accelerator* device = nullptr;
  for (const RankSummary& summary : ranks) {
    const auto& info = store.ranks()[summary.rank].info();
    if (info.device_name.empty()) {
      return Infeasible("{}: --energy: the trace does not name the device that it was recorded on",
                        info.source);
    }
    const Accelerator* of = accelerators.Find(info.device_name);
    if (of == nullptr || of->physical.power_w <= 0) {
      return Infeasible("{}: --energy: no file of topologies/accelerators states the power of '{}'",
                        info.source, info.device_name);
    }
    if (device != nullptr && of != device) {
      return Infeasible("{}: --energy: ranks are on {} and on {}", info.source, device->name,
                        of->name);
    }
    device = of;
  }
  if (device == nullptr) return Infeasible("--energy: no rank takes part in the step");
  use.device = device->name;
  use.rated_w = device->physical.power_w;
  for (const PowerModel& model : measured) {
    if (model.device == device->name) use.idle_w = model.idle_w;
  }
  const double waiting_w = use.idle_w > 0 ? use.idle_w : use.rated_w;
  for (const RankSummary& summary : ranks) {
    const SimTime whole = period > SimTime() ? period : summary.window.predicted();
    const SimTime busy = std::min(summary.busy, whole);
    use.joules += use.rated_w * busy.seconds() + waiting_w * (whole - busy).seconds();
  }
  return use;
}

std::string EnergyText(const EnergyUse& use) {
  return fmt::format(
      "Energy of a step, at most: {:.2f} J of {} {}, {:.0f} W each while they work (rated){}\n",
      use.joules, use.devices, use.device, use.rated_w,
      use.idle_w > 0 ? fmt::format(", {:.0f} while they wait (measured)", use.idle_w)
                     : " and while they wait");
}

std::string EnergyJson(const EnergyUse& use) {
  rapidjson::StringBuffer buffer;
  JsonWriter out(buffer);
  out.StartObject();
  out.Field("of", use.idle_w > 0 ? "rated power, measured idle power" : "rated power");
  out.Field("device", use.device);
  out.Field("devices", static_cast<uint64_t>(use.devices));
  out.Field("rated_w", use.rated_w);
  out.Field("idle_w", use.idle_w);
  out.Field("joules_per_step", use.joules);
  out.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace
