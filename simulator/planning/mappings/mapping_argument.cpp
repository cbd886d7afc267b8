// What --mapping and --compare name: a file, or words that add to what the software does.

#include <unistd.h>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/idle_choice.h"
#include "simulator/planning/mappings/training_job.h"

namespace foretrace {
namespace {

// `idle`: of IdleChoice and IdleWord.
absl::Status Refused(const std::string& idle, const std::string& argument) {
  return idle.empty() ? absl::OkStatus()
                      : InvalidInput("mapping '{}' has a word that would change nothing: {}",
                                     argument, idle);
}

}  // namespace

absl::StatusOr<MappingFile> ReadMappingArgument(const std::string& argument, int32_t global_batch,
                                                const TrainingJob& job,
                                                std::vector<std::string>& notes) {
  FORETRACE_ASSIGN_OR_RETURN(MappingFile file, ReadMappingArgument(argument, global_batch));
  auto* mapping = std::get_if<ParallelMapping>(&file);
  if (mapping == nullptr || access(argument.c_str(), R_OK) == 0) return file;
  const bool shards = job.software && job.software->release.shards > 0;
  FORETRACE_RETURN_IF_ERROR(Refused(IdleWord(argument, shards), argument));
  if (!job.software) return file;
  const StackRelease& release = job.software->release;
  // Degrees are known now: what is not said is the software's.
  const ParallelMapping said = *mapping;
  mapping->zero = DividedAs(release, release.zero, said);
  mapping->recompute = release.recompute;
  mapping->modules = release.modules;
  const std::string source = "mapping '" + argument + "'";
  FORETRACE_RETURN_IF_ERROR(AddWords(argument, source, *mapping));
  const std::string left = SetChoices(release, *job.model.transformer, *mapping);
  if (!RunsInParts(*mapping, job.cluster.devices_per_node)) mapping->chunked_tensor = false;
  FORETRACE_RETURN_IF_ERROR(AddWords(argument, source, *mapping));
  mapping->chunked_tensor &= mapping->overlap_tensor && !mapping->async_tensor;
  // As tables of runs mean the word.
  if (mapping->recompute == Recompute::kSelective) mapping->recompute = release.selective;
  FORETRACE_RETURN_IF_ERROR(CheckInputsOf(release, *mapping));
  FORETRACE_RETURN_IF_ERROR(Refused(IdleChoice(*mapping), argument));
  if (!left.empty() && mapping->hybrid == 0) notes.push_back(ToString(*mapping) + ": " + left);
  return file;
}

absl::StatusOr<MappingFile> ReadMappingArgument(const std::string& argument, int32_t global_batch) {
  const auto check = [&](const ParallelMapping& mapping) {
    if (global_batch > 0 && mapping.global_batch != global_batch) {
      return InvalidInput("--global-batch {}: the mapping '{}' has {}; give one of the two",
                          global_batch, argument, mapping.global_batch);
    }
    return Refused(IdleChoice(mapping), argument);
  };
  if (access(argument.c_str(), R_OK) == 0) {
    FORETRACE_ASSIGN_OR_RETURN(MappingFile file, LoadMapping(argument));
    if (const auto* mapping = std::get_if<ParallelMapping>(&file)) {
      FORETRACE_RETURN_IF_ERROR(check(*mapping));
    }
    return file;
  }
  if (argument.ends_with(".yaml") || argument.find('/') != std::string::npos) {
    return InvalidInput("{}: cannot open the mapping file", argument);
  }
  FORETRACE_ASSIGN_OR_RETURN(const ParallelMapping mapping,
                             ParseMapping(argument, global_batch, "mapping '" + argument + "'"));
  FORETRACE_RETURN_IF_ERROR(check(mapping));
  return mapping;
}

}  // namespace foretrace
