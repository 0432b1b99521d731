#include "plan/observed.h"

#include "cli/error.h"
#include "cli/io.h"

#include <algorithm>

namespace tl::plan {

namespace {

constexpr std::size_t kMaxMetrics = std::size_t{1} << 30;

Observed read_observed(const json::Value &arrival, const std::string &origin) {
  Observed observed;
  observed.origin = origin;
  observed.cut = arrival.at("cut").get<std::string>();
  observed.codec = arrival.at("codec").get<std::string>();
  observed.records = arrival.at("records").get<double>();
  observed.bytes = arrival.at("bytes").get<double>();
  observed.seconds = arrival.at("seconds").get<double>();
  observed.compute_seconds = arrival.at("compute_seconds").get<double>();
  observed.limited_by = arrival.at("limited_by").get<std::string>();
  if (!(observed.records >= 1 && observed.seconds > 0 && observed.bytes > 0 && observed.compute_seconds > 0))
    throw FormatError(origin + ": /arrival: records, bytes and seconds must be over 0");
  return observed;
}

/// `seen`: seconds a record of the whole pipeline.
double drift_of(double promised, double seen, bool limiting) {
  if (promised <= 0) return 1;
  return limiting ? seen / promised : std::min(1.0, seen / promised);
}

void slow_down(ModelProfile &model, HostProfile &host, std::optional<DataProfile> &data, double factor) {
  for (Segment &segment : model.measured.segments) {
    for (double &seconds : segment.seconds) seconds *= factor;
    for (double &seconds : segment.suffix_seconds) seconds *= factor;
    for (double &seconds : segment.train_seconds) seconds *= factor;
  }
  for (double &seconds : model.measured.whole_seconds) seconds *= factor;
  if (model.codecs)
    for (ValueCodecs &value : model.codecs->values)
      for (CodecCost &cost : value.codecs) {
        cost.encode_seconds *= factor;
        cost.decode_seconds *= factor;
      }
  host.blas.gflops /= factor;
  if (host.stream) {
    host.stream->send_bandwidth /= factor;
    host.stream->receive_bandwidth /= factor;
  }
  if (!data) return;
  data->read_seconds *= factor;
  data->decode_seconds *= factor;
}

} // namespace

double Drift::largest() const {
  double most = 1;
  for (const double factor : {storage, link, compute}) most = std::max({most, factor, 1 / factor});
  return most;
}

std::optional<Observed> load_observed(const std::string &path) {
  const std::string name = path == "-" ? "stdin" : path;
  const std::string text = cli::read_file(path, kMaxMetrics);
  std::optional<Observed> last;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string origin = name + ":" + std::to_string(++number);
    // A line without its end was being written when the run died; the ones before it are whole.
    if (end == text.size() && last) break;
    if (end > begin) {
      const json::Value line = json::parse(text.substr(begin, end - begin), origin);
      json::validate(line, "metrics", origin);
      if (line.contains("arrival")) last = read_observed(line.at("arrival"), origin);
    }
    begin = end + 1;
  }
  return last;
}

Drift compare(const Observed &observed, const std::vector<Option> &options) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option &option) {
    return option.name == observed.cut && name_of(option.candidate.codec) == observed.codec;
  });
  if (found == options.end())
    throw Error(observed.origin + ": tells of the cut " + observed.cut + " with codec " + observed.codec +
                ", which the profiles and the scheme do not have; is it of another run?");
  const Prediction &promised = found->predicted;
  const double seen = observed.seconds / observed.records;
  Drift drift;
  drift.storage = drift_of(promised.storage, seen, observed.limited_by == "storage");
  drift.link = drift_of(promised.link, seen, observed.limited_by == "link");
  drift.compute = drift_of(promised.compute, observed.compute_seconds, true);
  return drift;
}

void apply(const Drift &drift, Problem &problem) {
  if (!problem.compute_data) problem.compute_data = problem.storage_data; // as the cost model does
  slow_down(problem.storage_model, problem.storage_host, problem.storage_data, drift.storage);
  slow_down(problem.compute_model, problem.compute_host, problem.compute_data, drift.compute);
  problem.link.bandwidth /= drift.link;
}

} // namespace tl::plan
