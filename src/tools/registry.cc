// SPDX-License-Identifier: Apache-2.0
#include "tools/registry.h"

#include <cmath>
#include <exception>
#include <utility>

namespace errand {
namespace {

// What a model's adapter puts in place of an input that was no JSON.
constexpr std::string_view kInvalidJson = "__invalid_json";

std::string_view type_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "integer";
    case json::kind::double_:
      return "number";
    case json::kind::string:
      return "string";
    case json::kind::array:
      return "array";
    case json::kind::object:
      return "object";
  }
  return "unknown";
}

// JSON Schema counts 5.0 as an integer, and some models write it.
bool is_whole(const json::value& value) {
  return value.is_int64() || value.is_uint64() ||
         (value.is_double() && std::nearbyint(value.get_double()) == value.get_double());
}

bool has_type(const json::value& value, std::string_view type) {
  if (type == "integer") return is_whole(value);
  if (type == "number") return value.is_number();
  return type_name(value) == type;
}

double number_of(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  return value.is_double() ? value.get_double() : 0;
}

std::string schema_type(const json::object& property) { return get_string(property, "type").value_or("any value"); }

std::string bounds_text(const json::object& property) {
  const json::value* low = property.if_contains("minimum");
  const json::value* high = property.if_contains("maximum");
  if (low && high) return to_text(*low) + " to " + to_text(*high);
  if (low) return "at least " + to_text(*low);
  return "at most " + to_text(*high);
}

std::optional<std::string> property_fault(const std::string& name, const json::object& property,
                                          const json::value& value, const std::string& prefix) {
  const std::string label = prefix + name;
  if (std::optional<std::string> type = get_string(property, "type"); type && !has_type(value, *type)) {
    return "wrong type of argument: " + label + " (expected " + *type + ", got " + std::string(type_name(value)) + ")";
  }
  if (const json::array* choices = get_array(property, "enum")) {
    bool found = false;
    std::string listed;
    for (const json::value& choice : *choices) {
      found = found || choice == value;
      listed += (listed.empty() ? "" : ", ") + to_text(choice);
    }
    if (!found)
      return "wrong value of argument: " + label + " (expected one of " + listed + ", got " + to_text(value) + ")";
  }
  if (value.is_number()) {
    const json::value* low = property.if_contains("minimum");
    const json::value* high = property.if_contains("maximum");
    if ((low && number_of(value) < number_of(*low)) || (high && number_of(value) > number_of(*high))) {
      return "argument out of range: " + label + " (expected " + bounds_text(property) + ", got " + to_text(value) +
             ")";
    }
  }
  if (value.is_array()) {
    const json::object* items = get_object(property, "items");
    for (std::size_t i = 0; items && i < value.get_array().size(); ++i) {
      const std::string index = "[" + std::to_string(i) + "]";
      if (auto fault = property_fault(index, *items, value.get_array()[i], label)) return fault;
    }
  }
  return std::nullopt;
}

ToolResult failed(std::string text) { return ToolResult{std::move(text), true, {}}; }

}  // namespace

std::optional<std::string> validate_input(const json::object& schema, const json::object& input) {
  static const json::object kNone;
  const json::object* properties = get_object(schema, "properties");
  if (!properties) properties = &kNone;
  std::string faults;
  auto add = [&faults](const std::string& line) { faults += (faults.empty() ? "" : "\n") + line; };

  if (const json::array* required = get_array(schema, "required")) {
    for (const json::value& name : *required) {
      if (!name.is_string() || input.contains(name.get_string())) continue;
      const json::object* property = get_object(*properties, std::string_view(name.get_string()));
      add("missing required argument: " + std::string(name.get_string()) + " (" +
          (property ? schema_type(*property) : "any value") + ")");
    }
  }
  for (const auto& [key, value] : input) {
    const std::string name(key);
    const json::object* property = get_object(*properties, name);
    if (!property) {
      std::string known;
      for (const auto& known_property : *properties)
        known += (known.empty() ? "" : ", ") + std::string(known_property.key());
      add("unknown argument: " + name + " (known: " + (known.empty() ? "none" : known) + ")");
    } else if (auto fault = property_fault(name, *property, value, "")) {
      add(*fault);
    }
  }
  if (faults.empty()) return std::nullopt;
  return faults;
}

Registry::Registry() = default;
Registry::~Registry() = default;
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;

void Registry::add(std::unique_ptr<Tool> tool) {
  for (std::unique_ptr<Tool>& existing : tools_) {
    if (existing->spec().name == tool->spec().name) {
      existing = std::move(tool);
      return;
    }
  }
  tools_.push_back(std::move(tool));
}

Tool* Registry::find(std::string_view name) const {
  for (const std::unique_ptr<Tool>& tool : tools_) {
    if (tool->spec().name == name) return tool.get();
  }
  return nullptr;
}

std::vector<ToolSpec> Registry::specs() const {
  std::vector<ToolSpec> specs;
  for (const std::unique_ptr<Tool>& tool : tools_) specs.push_back(tool->spec());
  return specs;
}

PreparedCall Registry::prepare(std::string_view name, const json::object& input, const ToolContext& context) const {
  PreparedCall call;
  Tool* tool = find(name);
  if (!tool) {
    std::string known;
    for (const std::unique_ptr<Tool>& each : tools_) known += (known.empty() ? "" : ", ") + each->spec().name;
    call.refused = failed("unknown tool: " + std::string(name) + " (known: " + (known.empty() ? "none" : known) + ")");
    return call;
  }
  if (std::optional<std::string> raw = get_string(input, kInvalidJson)) {
    call.refused = failed("the arguments of " + std::string(name) +
                          " are no valid JSON object; nothing was run. Received: " + *raw);
    return call;
  }
  try {
    if (auto fault = validate_input(tool->spec().input_schema, input)) {
      call.refused = failed(*fault);
      return call;
    }
    call.permission = tool->permission(input, context);
    call.read_only = tool->read_only();
    call.tool = tool;
  } catch (const std::exception& error) {
    call.refused = failed("the tool failed: " + std::string(error.what()));
  } catch (...) {
    call.refused = failed("the tool failed: unknown exception");
  }
  return call;
}

ToolResult Registry::run(const PreparedCall& call, const json::object& input, ToolContext& context,
                         std::stop_token stop) const {
  if (call.refused) return *call.refused;
  if (!call.tool) return failed("the tool failed: the call was not prepared");
  try {
    return call.tool->run(input, context, stop);
  } catch (const std::exception& error) {
    return failed("the tool failed: " + std::string(error.what()));
  } catch (...) {
    return failed("the tool failed: unknown exception");
  }
}

ToolResult Registry::run(std::string_view name, const json::object& input, ToolContext& context,
                         std::stop_token stop) const {
  return run(prepare(name, input, context), input, context, stop);
}

}  // namespace errand
