#include "profile/table.h"

#include "cli/log.h"
#include "graph/cut.h"
#include "graph/flops.h"
#include "profile/segments.h"

#include <algorithm>
#include <cstdio>

namespace tl::profile {

namespace {

constexpr std::size_t kNameWidth = 40, kShapeWidth = 24;

template <class... Numbers> std::string line(const char *format, Numbers... numbers) {
  char text[512];
  std::snprintf(text, sizeof text, format, numbers...);
  return text;
}

std::string host_lines(const plan::HostProfile &host) {
  std::string text = "host: " + cli::printable(host.cpu) + ", " + std::to_string(host.cores) + " core(s), " +
                     cli::human_bytes(static_cast<double>(host.memory_bytes)) + "\n";
  text += line("  matrix products f32 %.1f GFLOP/s", host.blas.gflops);
  if (host.bf16) text += line(", bf16 %.1f GFLOP/s", host.bf16->gflops);
  text += ", memory copies " + cli::human_bytes(host.memory_bandwidth) + "/s\n";
  if (host.stream)
    text += "  a core sends features at " + cli::human_bytes(host.stream->send_bandwidth) +
            "/s, and receives and keeps them at " + cli::human_bytes(host.stream->receive_bandwidth) + "/s\n";
  return text;
}

std::string data_lines(const plan::DataProfile &data) {
  const double rate = data.read_seconds + data.decode_seconds / data.threads;
  return "data: " + cli::printable(data.path) + ", " + std::to_string(data.records) + " records, " +
         std::to_string(data.classes) + " classes, " + cli::human_bytes(data.bytes_per_record) +
         " each\n  read " + cli::human_seconds(data.read_seconds) + ", decode and preprocess " +
         cli::human_seconds(data.decode_seconds) + " a record on one thread" +
         line("; %.0f records/s on %d thread(s)\n", rate > 0 ? 1 / rate : 0, data.threads);
}

std::string value_line(const graph::Graph &graph, const graph::Cut &border, double milliseconds,
                       double megaflops, double peak) {
  std::string name = border.name(graph), shape;
  double bytes = 0;
  for (const graph::ValueId id : border.values) {
    const graph::Value &value = graph.values[static_cast<std::size_t>(id)];
    shape += (shape.empty() ? "" : "+") + to_string(value.shape);
    bytes += static_cast<double>(value.bytes());
  }
  const auto shorten = [](std::string &text, std::size_t width) {
    if (text.size() > width) text = text.substr(0, width - 3) + "...";
  };
  shorten(name, kNameWidth);
  shorten(shape, kShapeWidth);
  return line("  %-40s %-24s %11s %10.3f %10.1f %11s\n", name.c_str(), shape.c_str(),
              cli::human_bytes(bytes).c_str(), milliseconds, megaflops, cli::human_bytes(peak).c_str());
}

/// "  run blocked; of the whole network, blocked 1.00, channels-last 1.21, bf16 0.40 (error 0.0041)"
std::string execution_lines(const plan::Measurement &measured) {
  if (measured.executions.size() < 2) return "";
  std::string text =
      "  run " + std::string(graph::name_of(measured.execution)) + "; the whole network takes ";
  const double unit = measured.executions.front().seconds;
  for (std::size_t i = 0; i < measured.executions.size(); ++i) {
    const plan::ExecutionCost &cost = measured.executions[i];
    text +=
        (i ? ", " : "") + std::string(graph::name_of(cost.execution)) + line(" %.2f", cost.seconds / unit);
    if (!graph::exact(cost.execution)) text += line(" (error %.2g)", cost.rms_error);
  }
  return text + "\n";
}

std::string model_lines(const plan::ModelProfile &model) {
  const graph::Graph &graph = model.graph;
  const plan::Measurement &measured = model.measured;
  const std::size_t last = measured.batches.size() - 1;
  const auto batch = static_cast<double>(measured.batches[last]);
  std::string text = "model: " + cli::printable(model.path) + ", " + std::to_string(graph.parameters.size()) +
                     " parameters and buffers, batch " + std::to_string(measured.batches[last]) + ", " +
                     std::to_string(measured.threads) + " thread(s)\n" + execution_lines(measured);
  text +=
      line("  %-40s %-24s %11s %10s %10s %11s\n", "value", "shape", "bytes", "ms so far", "MFLOP", "peak");
  const std::vector<graph::Cut> borders = choose_borders(graph);
  double seconds = 0, flops = 0, peak = 0;
  text += value_line(graph, borders[0], 0, 0, 0);
  for (std::size_t i = 0; i < measured.segments.size(); ++i) {
    const plan::Segment &segment = measured.segments[i];
    seconds += segment.seconds[last];
    for (int n = segment.first; n < segment.last; ++n)
      flops += graph::flops(graph, graph.nodes[static_cast<std::size_t>(n)]);
    peak = std::max(peak, static_cast<double>(segment.peak_bytes[last]));
    text += value_line(graph, borders[i + 1], 1000 * seconds / batch, flops / 1e6, peak);
  }
  return text;
}

} // namespace

std::string table(const plan::Profile &profile) {
  std::string text;
  if (profile.host) text += host_lines(*profile.host);
  if (profile.data) text += data_lines(*profile.data);
  if (profile.link)
    text += "link: " + cli::human_bytes(profile.link->bandwidth) + "/s, round trip " +
            cli::human_seconds(profile.link->round_trip) + "\n";
  if (profile.model) text += model_lines(*profile.model);
  return text;
}

} // namespace tl::profile
