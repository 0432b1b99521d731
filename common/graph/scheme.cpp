#include "graph/scheme.h"

#include "cli/error.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace tl::graph {

namespace {

constexpr std::array<std::string_view, 4> kPools = {"auto", "none", "mean", "class-token"};
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::size_t kMaxLayers = 16;

/// `text`, a part of `whole`, as a number from 1 to kMaxWidth. `what`: "a layer width".
std::int64_t count_from_text(const std::string &whole, const std::string &text, const std::string &what) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMaxWidth)
    throw UsageError(whole + ": '" + text + "' is not " + what + " between 1 and " +
                     std::to_string(kMaxWidth));
  return count;
}

} // namespace

std::string_view name_of(Pool pool) { return kPools[static_cast<std::size_t>(pool)]; }

Pool pool_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kPools.size(); ++i)
    if (kPools[i] == name) return static_cast<Pool>(i);
  throw UsageError("unknown pooling '" + std::string(name) + "': use auto, none, mean or class-token");
}

Head Head::parse(const std::string &text) {
  Head head;
  if (text == "linear") return head;
  if (text.rfind("mlp:", 0) != 0)
    throw UsageError("unknown head '" + text + "': use linear or mlp:WIDTH[,WIDTH...]");
  std::size_t begin = 4;
  for (;;) {
    const std::size_t comma = text.find(',', begin);
    head.hidden.push_back(
        count_from_text("head '" + text + "'", text.substr(begin, comma - begin), "a layer width"));
    if (head.hidden.size() > kMaxLayers)
      throw UsageError("head '" + text + "': more than " + std::to_string(kMaxLayers) + " hidden layers");
    if (comma == std::string::npos) return head;
    begin = comma + 1;
  }
}

std::string Head::text() const {
  if (hidden.empty()) return "linear";
  std::string result = "mlp:";
  for (std::size_t i = 0; i < hidden.size(); ++i) result += (i ? "," : "") + std::to_string(hidden[i]);
  return result;
}

Adapters Adapters::parse(const std::string &text) {
  const std::string whole = "adapters '" + text + "'";
  const std::size_t colon = text.find(':');
  Adapters adapters;
  adapters.width = count_from_text(whole, text.substr(0, colon), "a width");
  if (colon != std::string::npos)
    adapters.blocks = count_from_text(whole, text.substr(colon + 1), "a number of blocks");
  return adapters;
}

std::string Adapters::text() const {
  return std::to_string(width) + (blocks > 0 ? ":" + std::to_string(blocks) : "");
}

json::Value to_json(const Scheme &scheme) {
  json::Value result = json::Value::object();
  if (scheme.head) result["head"] = scheme.head->text();
  if (!scheme.features.empty()) result["features"] = scheme.features;
  if (scheme.head) result["pool"] = name_of(scheme.pool);
  if (!scheme.train.empty()) result["train"] = scheme.train;
  if (scheme.unfreeze > 0) result["unfreeze"] = scheme.unfreeze;
  if (scheme.adapters) result["adapters"] = scheme.adapters->text();
  return result;
}

Scheme scheme_from_json(const json::Value &document, const std::string &origin) {
  Scheme scheme;
  try {
    if (!document.is_object()) throw FormatError("not an object");
    for (const auto &[key, item] : document.items()) {
      if (key == "unfreeze") {
        if (!item.is_number_integer() || item.get<std::int64_t>() < 1)
          throw FormatError("unfreeze: want a number of blocks");
        scheme.unfreeze = item.get<std::int64_t>();
        continue;
      }
      const auto text = item.get<std::string>();
      if (key == "head")
        scheme.head = Head::parse(text);
      else if (key == "features")
        scheme.features = text;
      else if (key == "pool")
        scheme.pool = pool_from_name(text);
      else if (key == "train")
        scheme.train = text;
      else if (key == "adapters")
        scheme.adapters = Adapters::parse(text);
      else
        throw FormatError("unknown key '" + key + "'");
    }
  } catch (const std::exception &error) {
    throw FormatError(origin + ": scheme: " + error.what());
  }
  return scheme;
}

std::vector<bool> frozen(const Graph &graph) {
  std::vector<bool> result(graph.values.size(), true);
  for (const Node &node : graph.nodes) {
    const bool all = std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Operand &operand) {
      const auto index = static_cast<std::size_t>(operand.index);
      if (operand.kind == Operand::Kind::parameter) return !graph.parameters[index].trainable;
      return operand.kind != Operand::Kind::value || result[index];
    });
    for (const ValueId out : node.outputs) result[static_cast<std::size_t>(out)] = all;
  }
  return result;
}

bool trains_batch_norm(const Graph &graph, const Node &node) {
  if (node.op != "aten::batch_norm") return false;
  // (x, weight, bias, running_mean, running_var, ...)
  for (std::size_t i = 1; i <= 2 && i < node.inputs.size(); ++i) {
    const Operand &operand = node.inputs[i];
    if (operand.kind == Operand::Kind::parameter &&
        graph.parameters[static_cast<std::size_t>(operand.index)].trainable)
      return true;
  }
  return false;
}

} // namespace tl::graph
