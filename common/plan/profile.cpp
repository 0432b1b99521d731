#include "plan/profile.h"

#include "cli/error.h"

#include <algorithm>

namespace tl::plan {

namespace {

json::Value to_json(const ProductSpeed &speed) {
  return {{"gflops", speed.gflops}, {"threads", speed.threads}};
}

json::Value to_json(const HostProfile &host) {
  json::Value result = {{"cpu", host.cpu},
                        {"cores", host.cores},
                        {"memory_bytes", host.memory_bytes},
                        {"blas", to_json(host.blas)},
                        {"blas_slow", host.blas_slow}};
  if (host.bf16) result["bf16"] = to_json(*host.bf16);
  result["memory_bandwidth"] = host.memory_bandwidth;
  if (host.stream)
    result["stream"] = {{"send_bandwidth", host.stream->send_bandwidth},
                        {"receive_bandwidth", host.stream->receive_bandwidth}};
  return result;
}

json::Value to_json(const Segment &segment) {
  json::Value result = {{"first", segment.first}, {"last", segment.last}, {"seconds", segment.seconds}};
  if (!segment.suffix_seconds.empty()) result["suffix_seconds"] = segment.suffix_seconds;
  if (!segment.train_seconds.empty()) result["train_seconds"] = segment.train_seconds;
  result["peak_bytes"] = segment.peak_bytes;
  return result;
}

json::Value to_json(const CodecProfile &profile) {
  json::Value values = json::Value::array();
  for (const ValueCodecs &value : profile.values) {
    json::Value codecs = json::Value::array();
    for (const CodecCost &cost : value.codecs)
      codecs.push_back({{"codec", name_of(cost.codec)},
                        {"bytes", cost.bytes},
                        {"encode_seconds", cost.encode_seconds},
                        {"decode_seconds", cost.decode_seconds},
                        {"rms_error", cost.rms_error},
                        {"max_error", cost.max_error}});
    values.push_back({{"name", value.name}, {"hash", value.hash.hex()}, {"codecs", codecs}});
  }
  return {{"records", profile.records}, {"real", profile.real}, {"values", values}};
}

json::Value to_json(const Measurement &measured) {
  json::Value segments = json::Value::array(), executions = json::Value::array();
  for (const Segment &segment : measured.segments) segments.push_back(to_json(segment));
  for (const ExecutionCost &cost : measured.executions)
    executions.push_back({{"execution", graph::name_of(cost.execution)},
                          {"seconds", cost.seconds},
                          {"rms_error", cost.rms_error}});
  return {{"threads", measured.threads}, {"execution", graph::name_of(measured.execution)},
          {"executions", executions},    {"batches", measured.batches},
          {"segments", segments},        {"whole_seconds", measured.whole_seconds}};
}

json::Value to_json(const ModelProfile &model) {
  json::Value result = {{"path", model.path},
                        {"file_digest", model.file_digest.hex()},
                        {"preprocess", model.preprocess},
                        {"graph", graph::to_json(model.graph)},
                        {"measured", to_json(model.measured)}};
  if (model.codecs) result["codecs"] = to_json(*model.codecs);
  return result;
}

json::Value to_json(const DataProfile &data) {
  return {{"path", data.path},
          {"records", data.records},
          {"classes", data.classes},
          {"bytes_per_record", data.bytes_per_record},
          {"read_seconds", data.read_seconds},
          {"decode_seconds", data.decode_seconds},
          {"threads", data.threads}};
}

json::Value to_json(const LinkProfile &link) {
  json::Value result = {{"bandwidth_bytes_per_s", link.bandwidth}, {"round_trip_s", link.round_trip}};
  if (!link.command.empty()) result["command"] = link.command;
  return result;
}

ProductSpeed speed_from_json(const json::Value &document) {
  return {document.at("gflops").get<double>(), document.at("threads").get<int>()};
}

HostProfile host_from_json(const json::Value &document) {
  HostProfile host;
  host.cpu = document.at("cpu").get<std::string>();
  host.cores = document.at("cores").get<int>();
  host.memory_bytes = document.at("memory_bytes").get<std::int64_t>();
  host.blas = speed_from_json(document.at("blas"));
  host.blas_slow = document.at("blas_slow").get<bool>();
  if (document.contains("bf16")) host.bf16 = speed_from_json(document["bf16"]);
  host.memory_bandwidth = document.at("memory_bandwidth").get<double>();
  if (const auto stream = document.find("stream"); stream != document.end())
    host.stream = StreamSpeed{stream->at("send_bandwidth").get<double>(),
                              stream->at("receive_bandwidth").get<double>()};
  return host;
}

void check_count(std::size_t count, std::size_t batches, const std::string &place) {
  if (count != batches)
    throw FormatError(place + ": " + std::to_string(count) + " numbers for " + std::to_string(batches) +
                      " batch sizes");
}

Segment segment_from_json(const json::Value &document, std::size_t batches, int begin, int nodes,
                          const std::string &place) {
  Segment segment;
  segment.first = document.at("first").get<int>();
  segment.last = document.at("last").get<int>();
  segment.seconds = document.at("seconds").get<std::vector<double>>();
  const std::vector<double> none;
  segment.suffix_seconds = document.value("suffix_seconds", none);
  segment.train_seconds = document.value("train_seconds", none);
  segment.peak_bytes = document.at("peak_bytes").get<std::vector<std::int64_t>>();
  if (segment.first < begin || segment.last <= segment.first || segment.last > nodes)
    throw FormatError(place + ": nodes [" + std::to_string(segment.first) + ", " +
                      std::to_string(segment.last) + ") are empty, out of order, or not in the graph of " +
                      std::to_string(nodes));
  check_count(segment.seconds.size(), batches, place + "/seconds");
  check_count(segment.peak_bytes.size(), batches, place + "/peak_bytes");
  if (!segment.suffix_seconds.empty())
    check_count(segment.suffix_seconds.size(), batches, place + "/suffix_seconds");
  if (!segment.train_seconds.empty())
    check_count(segment.train_seconds.size(), batches, place + "/train_seconds");
  return segment;
}

Measurement measurement_from_json(const json::Value &document, int nodes, const std::string &place) {
  Measurement measured;
  measured.threads = document.at("threads").get<int>();
  if (document.contains("execution"))
    measured.execution = graph::execution_from_name(document["execution"].get<std::string>());
  for (const json::Value &cost : document.value("executions", json::Value::array()))
    measured.executions.push_back({graph::execution_from_name(cost.at("execution").get<std::string>()),
                                   cost.at("seconds").get<double>(), cost.at("rms_error").get<double>()});
  measured.batches = document.at("batches").get<std::vector<std::int64_t>>();
  measured.whole_seconds = document.at("whole_seconds").get<std::vector<double>>();
  const std::size_t batches = measured.batches.size();
  for (std::size_t i = 1; i < batches; ++i)
    if (measured.batches[i] <= measured.batches[i - 1])
      throw FormatError(place + "/batches: not in ascending order");
  check_count(measured.whole_seconds.size(), batches, place + "/whole_seconds");
  const json::Value &segments = document.at("segments");
  int begin = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    measured.segments.push_back(
        segment_from_json(segments[i], batches, begin, nodes, place + "/segments/" + std::to_string(i)));
    begin = measured.segments.back().last;
  }
  return measured;
}

CodecProfile codecs_from_json(const json::Value &document) {
  CodecProfile profile;
  profile.records = document.at("records").get<std::int64_t>();
  profile.real = document.at("real").get<bool>();
  for (const json::Value &item : document.at("values")) {
    ValueCodecs value;
    value.name = item.at("name").get<std::string>();
    value.hash = Digest::from_hex(item.at("hash").get<std::string>());
    for (const json::Value &cost : item.at("codecs"))
      value.codecs.push_back({codec::codec_from_name(cost.at("codec").get<std::string>()),
                              cost.at("bytes").get<double>(), cost.at("encode_seconds").get<double>(),
                              cost.at("decode_seconds").get<double>(), cost.at("rms_error").get<double>(),
                              cost.at("max_error").get<double>()});
    profile.values.push_back(std::move(value));
  }
  return profile;
}

ModelProfile model_from_json(const json::Value &document, const std::string &origin) {
  ModelProfile model;
  model.path = document.at("path").get<std::string>();
  model.file_digest = Digest::from_hex(document.at("file_digest").get<std::string>());
  model.preprocess = document.at("preprocess");
  model.graph = graph::from_json(document.at("graph"), origin + ": /model");
  model.measured = measurement_from_json(document.at("measured"), static_cast<int>(model.graph.nodes.size()),
                                         origin + ": /model/measured");
  if (document.contains("codecs")) model.codecs = codecs_from_json(document["codecs"]);
  return model;
}

DataProfile data_from_json(const json::Value &document) {
  DataProfile data;
  data.path = document.at("path").get<std::string>();
  data.records = document.at("records").get<std::int64_t>();
  data.classes = document.at("classes").get<std::int64_t>();
  data.bytes_per_record = document.at("bytes_per_record").get<double>();
  data.read_seconds = document.at("read_seconds").get<double>();
  data.decode_seconds = document.at("decode_seconds").get<double>();
  data.threads = document.at("threads").get<int>();
  return data;
}

LinkProfile link_from_json(const json::Value &document) {
  LinkProfile link;
  link.bandwidth = document.at("bandwidth_bytes_per_s").get<double>();
  link.round_trip = document.at("round_trip_s").get<double>();
  if (document.contains("command")) link.command = document["command"].get<std::string>();
  return link;
}

Profile read_profile(const json::Value &document, const std::string &origin) {
  Profile profile;
  profile.origin = origin;
  if (document.contains("host")) profile.host = host_from_json(document["host"]);
  if (document.contains("model")) profile.model = model_from_json(document["model"], origin);
  if (document.contains("data")) profile.data = data_from_json(document["data"]);
  if (document.contains("link")) profile.link = link_from_json(document["link"]);
  return profile;
}

} // namespace

json::Value to_json(const Profile &profile) {
  json::Value result = {{"format", "tl-profile"}, {"version", 1}};
  if (profile.host) result["host"] = to_json(*profile.host);
  if (profile.model) result["model"] = to_json(*profile.model);
  if (profile.data) result["data"] = to_json(*profile.data);
  if (profile.link) result["link"] = to_json(*profile.link);
  return result;
}

Profile profile_from_json(const json::Value &document, const std::string &origin) {
  json::validate(document, "profile", origin);
  return read_profile(document, origin);
}

Profile load_profile(const std::string &path) {
  return read_profile(json::load(path, "profile"), path == "-" ? "stdin" : path);
}

} // namespace tl::plan
