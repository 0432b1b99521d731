#include "train/tiers.h"

#include "cli/log.h"

#include <algorithm>
#include <cstdio>

namespace tl::train {

namespace {

double share(double part, double whole) { return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0; }

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

} // namespace

std::string_view Tiers::limited_by() const {
  if (link >= storage && link >= compute) return "link";
  return storage >= compute ? "storage" : "compute";
}

Tiers tiers(const Arrival &arrival, double work) {
  const shard::SenderReport &sender = arrival.delivery.sender;
  // Of a sender that tells nothing, all that is seen is the receiver's wait.
  const double blocked = sender.stages.empty() ? 1 : share(sender.busy("write"), 1);
  Tiers result;
  result.storage = 1 - blocked;
  for (const shard::Stage &stage : sender.stages)
    if (stage.name != "write") result.storage = std::max(result.storage, share(stage.busy, 1));
  // Either side's wait alone is the other side's fault.
  result.link = std::min(blocked, share(arrival.delivery.reading, arrival.delivery.seconds));
  result.compute = share(std::max(work, arrival.handling), arrival.delivery.seconds);
  return result;
}

json::Value arrival_json(const Arrival &arrival, const ArrivalWork &work, std::int64_t records,
                         const std::string &cut, const std::string &codec) {
  const shard::Delivery &delivery = arrival.delivery;
  const Tiers busy = tiers(arrival, work.seconds);
  const auto all = static_cast<double>(std::max<std::int64_t>(records, 1));
  return {{"cut", cut},
          {"codec", codec},
          {"records", delivery.records},
          {"bytes", delivery.bytes},
          {"seconds", delivery.seconds},
          {"compute_seconds", std::max(work.seconds, arrival.handling) / all},
          {"later_records", work.later_records},
          {"later_seconds", work.later_seconds},
          {"busy", {{"storage", busy.storage}, {"link", busy.link}, {"compute", busy.compute}}},
          {"limited_by", busy.limited_by()},
          {"sender", to_json(delivery.sender)}};
}

std::string describe_arrival(const Arrival &arrival, double work) {
  const shard::Delivery &delivery = arrival.delivery;
  const Tiers busy = tiers(arrival, work);
  const double rate = delivery.seconds > 0 ? static_cast<double>(delivery.bytes) / delivery.seconds : 0;
  const std::string limit(busy.limited_by());
  return "arrived at " + cli::human_bytes(rate) + "/s, held up by " +
         (limit == "link" ? "the link" : "the " + limit + " side") + "; busy: storage " +
         percent(busy.storage) + ", link " + percent(busy.link) + ", compute " + percent(busy.compute);
}

} // namespace tl::train
