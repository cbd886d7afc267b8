#include "simulator/console/options.h"

#include <CLI/CLI.hpp>

#include <utility>

namespace foretrace::CLI {
namespace {

template <typename T>
Check RangeOf(T low, T high) {
  return Check([low, high](::CLI::Option& option) { option.check(::CLI::Range(low, high)); });
}

template <typename T>
::CLI::Option* Add(::CLI::App& app, const std::string& name, T& variable, const std::string& help) {
  return app.add_option(name, variable, help);
}

}  // namespace

Check Range(int low, int high) { return RangeOf(low, high); }
Check Range(int64_t low, int64_t high) { return RangeOf(low, high); }
Check Range(double low, double high) { return RangeOf(low, high); }

Check ExistingFolder() {
  return Check([](::CLI::Option& option) { option.check(::CLI::ExistingDirectory); });
}
Check IsMember(std::initializer_list<const char*> names) {
  return Check([names = std::vector<std::string>(names.begin(), names.end())](
                   ::CLI::Option& option) { option.check(::CLI::IsMember(names)); });
}

Option* Option::required() { return option_->required(), this; }
Option* Option::type_name(std::string name) { return option_->type_name(std::move(name)), this; }
Option* Option::group(std::string name) { return option_->group(std::move(name)), this; }
Option* Option::check(const Check& check) { return check(*option_), this; }
Option* Option::capture_default_str() { return option_->capture_default_str(), this; }
Option* Option::delimiter(char separator) { return option_->delimiter(separator), this; }
Option* Option::expected(int values) { return option_->expected(values), this; }
Option* Option::allow_extra_args(bool allow) { return option_->allow_extra_args(allow), this; }
Option* Option::excludes(Option* other) { return option_->excludes(other->option_), this; }
Option* Option::needs(const std::string& other) { return option_->needs(other), this; }

App* App::add_subcommand(const std::string& name, const std::string& help) {
  commands_.push_back(std::make_unique<App>(app_->add_subcommand(name, help)));
  return commands_.back().get();
}
App* App::require_subcommand(int count) { return app_->require_subcommand(count), this; }
App* App::group(std::string name) { return app_->group(std::move(name)), this; }
App* App::footer(const std::string& text) { return app_->footer(text), this; }
App* App::callback(std::function<void()> call) { return app_->callback(std::move(call)), this; }
App* App::allow_extras() { return app_->allow_extras(), this; }
std::vector<std::string> App::remaining() const { return app_->remaining(); }

Option* App::Keep(::CLI::Option* option) {
  options_.push_back(std::make_unique<Option>(option));
  return options_.back().get();
}
Option* App::add_option(const std::string& name, std::string& variable, const std::string& help) {
  return Keep(Add(*app_, name, variable, help));
}
Option* App::add_option(const std::string& name, std::vector<std::string>& variable,
                        const std::string& help) {
  return Keep(Add(*app_, name, variable, help));
}
Option* App::add_option(const std::string& name, int32_t& variable, const std::string& help) {
  return Keep(Add(*app_, name, variable, help));
}
Option* App::add_option(const std::string& name, int64_t& variable, const std::string& help) {
  return Keep(Add(*app_, name, variable, help));
}
Option* App::add_option(const std::string& name, uint64_t& variable, const std::string& help) {
  return Keep(Add(*app_, name, variable, help));
}
Option* App::add_option(const std::string& name, double& variable, const std::string& help) {
  return Keep(Add(*app_, name, variable, help));
}
Option* App::add_option(const std::string& name, std::optional<int32_t>& variable,
                        const std::string& help) {
  return Keep(Add(*app_, name, variable, help));
}
Option* App::add_option(const std::string& name, std::optional<int64_t>& variable,
                        const std::string& help) {
  return Keep(Add(*app_, name, variable, help));
}
Option* App::add_flag(const std::string& name, bool& variable, const std::string& help) {
  return Keep(app_->add_flag(name, variable, help));
}

}  // namespace foretrace::CLI
