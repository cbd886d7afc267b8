#include "simulator/console/options.h"

#include <CLI/CLI.hpp>

#include <utility>

namespace foretrace::CLI {
namespace {

template <typename T>
Check RangeOf(T low, T high) {
  return Check([low, high](::CLI::Option& option) { option.check(::CLI::Range(low, high)); });
}

}  // namespace

Check Range(int low, int high) { return RangeOf(low, high); }
Check Range(int64_t low, int64_t high) { return RangeOf(low, high); }
Check Range(double low, double high) { return RangeOf(low, high); }

Check ExistingFolder() {
  return Check([](::CLI::Option& option) { option.check(::CLI::ExistingDirectory); });
}
Check IsMember(const std::vector<std::string_view>& names) {
  return Check([names = std::vector<std::string>(names.begin(), names.end())](
                   ::CLI::Option& option) { option.check(::CLI::IsMember(names)); });
}

Option* Option::required() {
  if (option_ != nullptr) option_->required();
  return this;
}
Option* Option::type_name(std::string name) {
  if (option_ != nullptr) option_->type_name(std::move(name));
  return this;
}
Option* Option::group(std::string name) {
  if (option_ != nullptr) option_->group(std::move(name));
  return this;
}
Option* Option::check(const Check& check) {
  if (option_ != nullptr) check(*option_);
  return this;
}
Option* Option::capture_default_str() {
  if (option_ != nullptr) option_->capture_default_str();
  return this;
}
Option* Option::delimiter(char separator) {
  if (option_ != nullptr) option_->delimiter(separator);
  return this;
}
Option* Option::expected(int values) {
  if (option_ != nullptr) option_->expected(values);
  return this;
}
Option* Option::allow_extra_args(bool allow) {
  if (option_ != nullptr) option_->allow_extra_args(allow);
  return this;
}
Option* Option::excludes(Option* other) {
  if (option_ != nullptr) option_->excludes(other->option_);
  return this;
}
Option* Option::needs(const std::string& other) {
  if (option_ != nullptr) option_->needs(other);
  return this;
}

App* App::add_subcommand(const std::string& name, const std::string& help) {
  if (listed_only_) return this;
  commands_.push_back(std::make_unique<App>(app_->add_subcommand(name, help), std::nullopt));
  commands_.back()->listed_only_ = chosen_.has_value() && chosen_ != name;
  return commands_.back().get();
}
App* App::require_subcommand(int count) {
  if (!listed_only_) app_->require_subcommand(count);
  return this;
}
App* App::group(std::string name) { return app_->group(std::move(name)), this; }
App* App::footer(const std::string& text) {
  if (!listed_only_) app_->footer(text);
  return this;
}
App* App::callback(std::function<void()> call) {
  if (!listed_only_) app_->callback(std::move(call));
  return this;
}
App* App::allow_extras() {
  if (!listed_only_) app_->allow_extras();
  return this;
}
std::vector<std::string> App::remaining() const { return app_->remaining(); }
std::string App::FirstGiven(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    const ::CLI::Option* option = app_->get_option_no_throw(name);
    if (option != nullptr && option->count() > 0) return name;
  }
  return "";
}

Option* App::Keep(::CLI::Option* option) {
  options_.push_back(std::make_unique<Option>(option));
  return options_.back().get();
}
template <typename T>
Option* App::Add(const std::string& name, T& variable, const std::string& help) {
  return Keep(listed_only_ ? nullptr : app_->add_option(name, variable, help));
}
Option* App::add_option(const std::string& name, std::string& variable, const std::string& help) {
  return Add(name, variable, help);
}
Option* App::add_option(const std::string& name, std::vector<std::string>& variable,
                        const std::string& help) {
  return Add(name, variable, help);
}
Option* App::add_option(const std::string& name, int32_t& variable, const std::string& help) {
  return Add(name, variable, help);
}
Option* App::add_option(const std::string& name, int64_t& variable, const std::string& help) {
  return Add(name, variable, help);
}
Option* App::add_option(const std::string& name, uint64_t& variable, const std::string& help) {
  return Add(name, variable, help);
}
Option* App::add_option(const std::string& name, double& variable, const std::string& help) {
  return Add(name, variable, help);
}
Option* App::add_option(const std::string& name, std::optional<int32_t>& variable,
                        const std::string& help) {
  return Add(name, variable, help);
}
Option* App::add_option(const std::string& name, std::optional<int64_t>& variable,
                        const std::string& help) {
  return Add(name, variable, help);
}
Option* App::add_flag(const std::string& name, bool& variable, const std::string& help) {
  return Keep(listed_only_ ? nullptr : app_->add_flag(name, variable, help));
}

}  // namespace foretrace::CLI
