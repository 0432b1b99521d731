// The graph as JSON, as profiles carry it. Literals are tagged with their type, because a reader
// that is not ours may turn 1.0 into 1.
#include "cli/error.h"
#include "graph/graph.h"

#include <array>
#include <cmath>
#include <limits>

namespace tl::graph {

namespace {

constexpr std::array<const char *, 6> kKinds = {"tensor", "tensor_list", "integer",
                                                "real",   "boolean",     "integer_list"};

ValueKind kind_from_name(const std::string &name) {
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    if (name == kKinds[i]) return static_cast<ValueKind>(i);
  throw FormatError("unknown kind of value '" + name + "'");
}

json::Value real_to_json(double number) { // JSON has no infinities; attention masks are full of them
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

double real_from_json(const json::Value &value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw FormatError("'" + text + "' is not a number");
}

json::Value constant_to_json(const Constant &constant) {
  struct Visitor {
    json::Value operator()(std::monostate) const { return {{"none", true}}; }
    json::Value operator()(bool b) const { return {{"bool", b}}; }
    json::Value operator()(std::int64_t i) const { return {{"int", i}}; }
    json::Value operator()(double x) const { return {{"float", real_to_json(x)}}; }
    json::Value operator()(const std::string &s) const { return {{"str", s}}; }
    json::Value operator()(const std::vector<std::int64_t> &list) const { return {{"ints", list}}; }
    json::Value operator()(const std::vector<double> &list) const {
      json::Value items = json::Value::array();
      for (const double x : list) items.push_back(real_to_json(x));
      return {{"floats", items}};
    }
    json::Value operator()(const std::vector<bool> &list) const { return {{"bools", list}}; }
    json::Value operator()(TensorIndex tensor) const { return {{"constant", tensor.index}}; }
  };
  return std::visit(Visitor{}, constant);
}

json::Value to_json(const Operand &operand) {
  if (operand.kind == Operand::Kind::value) return {{"value", operand.index}};
  if (operand.kind == Operand::Kind::parameter) return {{"parameter", operand.index}};
  return constant_to_json(operand.constant);
}

Operand operand_from_json(const json::Value &document) {
  if (!document.is_object() || document.size() != 1)
    throw FormatError("an operand must be an object with one key");
  const std::string &tag = document.begin().key();
  const json::Value &content = document.begin().value();
  if (tag == "value") return Operand::of_value(content.get<int>());
  if (tag == "parameter") return Operand::of_parameter(content.get<int>());
  if (tag == "none") return Operand::of(std::monostate{});
  if (tag == "bool") return Operand::of(content.get<bool>());
  if (tag == "int") return Operand::of(content.get<std::int64_t>());
  if (tag == "float") return Operand::of(real_from_json(content));
  if (tag == "str") return Operand::of(content.get<std::string>());
  if (tag == "ints") return Operand::of(content.get<std::vector<std::int64_t>>());
  if (tag == "bools") return Operand::of(content.get<std::vector<bool>>());
  if (tag == "constant") return Operand::of(TensorIndex{content.get<int>()});
  if (tag == "floats") {
    std::vector<double> list;
    for (const json::Value &item : content) list.push_back(real_from_json(item));
    return Operand::of(std::move(list));
  }
  throw FormatError("unknown operand '" + tag + "'");
}

json::Value to_json(const Value &value) {
  json::Value result = {{"name", value.name}};
  if (!value.aliases.empty()) result["aliases"] = value.aliases;
  result["kind"] = kKinds[static_cast<std::size_t>(value.kind)];
  result["dtype"] = name_of(value.dtype);
  result["shape"] = value.shape;
  result["batched"] = value.batched;
  result["hash"] = value.hash.hex();
  return result;
}

Value value_from_json(const json::Value &document) {
  Value value;
  value.name = document.at("name").get<std::string>();
  if (document.contains("aliases")) value.aliases = document["aliases"].get<std::vector<std::string>>();
  value.kind = kind_from_name(document.at("kind").get<std::string>());
  value.dtype = dtype_from_name(document.at("dtype").get<std::string>());
  value.shape = document.at("shape").get<Shape>();
  value.batched = document.at("batched").get<bool>();
  value.hash = Digest::from_hex(document.at("hash").get<std::string>());
  return value;
}

json::Value to_json(const Parameter &parameter) {
  json::Value result = {{"name", parameter.name}};
  if (!parameter.tied.empty()) result["tied"] = parameter.tied;
  result["dtype"] = name_of(parameter.dtype);
  result["shape"] = parameter.shape;
  if (parameter.buffer) result["buffer"] = true;
  if (parameter.trainable) result["trainable"] = true;
  if (parameter.fresh) result["fresh"] = true;
  if (parameter.zero) result["zero"] = true;
  result["content"] = parameter.content.hex();
  return result;
}

Parameter parameter_from_json(const json::Value &document) {
  const auto flag = [&](const char *key) { return document.contains(key) && document[key].get<bool>(); };
  Parameter parameter;
  parameter.name = document.at("name").get<std::string>();
  if (document.contains("tied")) parameter.tied = document["tied"].get<std::vector<std::string>>();
  parameter.dtype = dtype_from_name(document.at("dtype").get<std::string>());
  parameter.shape = document.at("shape").get<Shape>();
  parameter.buffer = flag("buffer");
  parameter.trainable = flag("trainable");
  parameter.fresh = flag("fresh");
  parameter.zero = flag("zero");
  parameter.content = Digest::from_hex(document.at("content").get<std::string>());
  return parameter;
}

Node node_from_json(const json::Value &document) {
  Node node;
  node.op = document.at("op").get<std::string>();
  node.module = document.at("module").get<std::string>();
  for (const json::Value &input : document.at("inputs")) node.inputs.push_back(operand_from_json(input));
  node.outputs = document.at("outputs").get<std::vector<ValueId>>();
  return node;
}

TensorConstant constant_from_json(const json::Value &document) {
  return {dtype_from_name(document.at("dtype").get<std::string>()), document.at("shape").get<Shape>(),
          Digest::from_hex(document.at("content").get<std::string>())};
}

/// Fills `to` from the array at `key`; an error names the item.
template <class T, class Read>
void read_items(const json::Value &document, const char *key, std::vector<T> &to, Read read) {
  const json::Value &items = document.at(key);
  if (!items.is_array()) throw FormatError(std::string(key) + ": not an array");
  for (std::size_t i = 0; i < items.size(); ++i) {
    try {
      to.push_back(read(items[i]));
    } catch (const std::exception &error) {
      throw FormatError(std::string(key) + "/" + std::to_string(i) + ": " + error.what());
    }
  }
}

Graph read_graph(const json::Value &document) {
  Graph graph;
  read_items(document, "values", graph.values, value_from_json);
  read_items(document, "nodes", graph.nodes, node_from_json);
  read_items(document, "parameters", graph.parameters, parameter_from_json);
  read_items(document, "constants", graph.constants, constant_from_json);
  graph.output = document.at("output").get<ValueId>();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const ValueId out : graph.nodes[n].outputs)
      if (out > 0 && static_cast<std::size_t>(out) < graph.values.size())
        graph.values[static_cast<std::size_t>(out)].node = static_cast<int>(n);
  return graph;
}

} // namespace

json::Value to_json(const Graph &graph) {
  json::Value result = {{"values", json::Value::array()},
                        {"nodes", json::Value::array()},
                        {"parameters", json::Value::array()},
                        {"constants", json::Value::array()},
                        {"output", graph.output}};
  for (const Value &value : graph.values) result["values"].push_back(to_json(value));
  for (const Node &node : graph.nodes) {
    json::Value inputs = json::Value::array();
    for (const Operand &operand : node.inputs) inputs.push_back(to_json(operand));
    result["nodes"].push_back(
        {{"op", node.op}, {"module", node.module}, {"inputs", inputs}, {"outputs", node.outputs}});
  }
  for (const Parameter &parameter : graph.parameters) result["parameters"].push_back(to_json(parameter));
  for (const TensorConstant &constant : graph.constants)
    result["constants"].push_back(
        {{"dtype", name_of(constant.dtype)}, {"shape", constant.shape}, {"content", constant.content.hex()}});
  return result;
}

Graph from_json(const json::Value &document, const std::string &origin) {
  try {
    Graph graph = read_graph(document);
    check(graph);
    return graph;
  } catch (const Error &error) {
    throw FormatError(origin + ": graph: " + error.what());
  } catch (const std::exception &error) { // the JSON library's own: a missing key, a wrong type
    throw FormatError(origin + ": graph: " + error.what());
  }
}

} // namespace tl::graph
