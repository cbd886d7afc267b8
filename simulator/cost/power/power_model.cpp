#include "simulator/cost/power/power_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/real_quantities.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

constexpr double kMostWatts = 1e5, kMostPicojoules = 1e6;

std::string RatesYaml(const char* operands, const PowerRates& rates) {
  return fmt::format(
      "  {}: {{busy_W: {:.4g}, pJ_per_FLOP: {:.4g}, pJ_per_memory_byte: {:.4g}, "
      "pJ_per_cache_byte: {:.4g}}}\n",
      operands, rates.busy_w, rates.pj_per_flop, rates.pj_per_memory_byte, rates.pj_per_cache_byte);
}

PowerRates ReadRates(const YamlReader& in) {
  const auto energy = [&](const char* key) { return in.Number(key, 0, kMostPicojoules); };
  PowerRates rates;
  rates.busy_w = in.Number("busy_W", 0, kMostWatts);
  rates.pj_per_flop = energy("pJ_per_FLOP");
  rates.pj_per_memory_byte = energy("pJ_per_memory_byte");
  rates.pj_per_cache_byte = energy("pJ_per_cache_byte");
  return rates;
}

}  // namespace

Activity ActivityOf(Flop flop, Bytes bytes, SimTime time, Bytes cache) {
  const RealSeconds taken = std::max(RealSeconds(time), RealSeconds(1e-12));
  const RealBytes all(bytes), held(cache);
  const double anew = held > RealBytes() ? std::clamp((all - held) / held, 0.0, 1.0) : 1.0;
  return {FlopRate::PerSecond(flop.count() / taken.seconds()), all * anew / taken,
          all * (1 - anew) / taken};
}

double PowerRates::Watts(const Activity& activity) const {
  return busy_w + 1e-12 * (pj_per_flop * activity.compute.per_second() +
                           pj_per_memory_byte * activity.memory.bytes_per_second() +
                           pj_per_cache_byte * activity.cache.bytes_per_second());
}

double PowerModel::Watts(const PowerRates& rates, const Activity& activity) const {
  return std::min(limit_w, idle_w + rates.Watts(activity));
}

double PowerModel::JoulesAboveIdle(DType dtype, Flop flop, Bytes bytes, SimTime time) const {
  const PowerRates& rates = ElementSize(dtype) == 1 ? narrow : wide;
  return (Watts(rates, ActivityOf(flop, bytes, time, Bytes())) - idle_w) * time.seconds();
}

std::string PowerModelYaml(const PowerModel& model) {
  return fmt::format("device: {}\nidle_W: {:.4g}\nlimit_W: {:.4g}\nmodels:\n", model.device,
                     model.idle_w, model.limit_w) +
         RatesYaml("wide", model.wide) + RatesYaml("narrow", model.narrow);
}

absl::StatusOr<LoadedPower> LoadPowerModel(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(path));
  LoadedPower loaded;
  FORETRACE_ASSIGN_OR_RETURN(loaded.header, ParseHeader(root, path, "power"));
  try {
    auto sink = std::make_shared<YamlSink>();
    sink->file = path;
    const YamlReader in(root, "", sink);
    loaded.model.device = in.String("device");
    loaded.model.idle_w = in.Number("idle_W", 0, kMostWatts);
    loaded.model.limit_w = in.Number("limit_W", 1, kMostWatts);
    const YamlReader models = in.Child("models");
    loaded.model.wide = ReadRates(models.Child("wide"));
    loaded.model.narrow = ReadRates(models.Child("narrow"));
    if (!in.ok()) return in.status();
  } catch (const YAML::Exception& error) {
    return YamlError(path, error);
  }
  return loaded;
}

}  // namespace foretrace
