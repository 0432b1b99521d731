// Which tier held up the others while the records arrived: storage side, link or compute side.
#pragma once

#include "train/fit.h"
#include "train/source.h"
#include "json/document.h"

#include <string>
#include <string_view>

namespace tl::train {

/// Shares of the time between the first shard's arrival and the last one's.
struct Tiers {
  double storage = 0; // the sender works, or at least does not wait for the link
  double link = 0;    // the sender waits to send while the receiver waits to receive
  double compute = 0; // the receiver decodes, keeps or trains

  /// "storage", "link" or "compute": the busiest.
  std::string_view limited_by() const;
};

/// `work`: seconds in frozen layers and training steps meanwhile.
Tiers tiers(const Arrival &arrival, double work);

/// The "arrival" of a metrics line: what crossed, how fast, and how busy each tier and stage was. `records`:
/// all that arrived. `cut` and `codec` name what crossed, as the plan does.
json::Value arrival_json(const Arrival &arrival, const ArrivalWork &work, std::int64_t records,
                         const std::string &cut, const std::string &codec);

/// "arrived at 11.2 MB/s, held up by the link; busy: storage 34.0 %, link 98.1 %, compute 21.5 %"
std::string describe_arrival(const Arrival &arrival, double work);

} // namespace tl::train
