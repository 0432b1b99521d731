// Private to common/data: records and lists that are objects of a store.
#pragma once

#include "data/byte_stream.h"
#include "data/listing.h"
#include "object/store.h"

#include <memory>
#include <string>

namespace tl::data {

using Store = std::shared_ptr<const object::ObjectStore>;

/// False in a process that is confined to a folder: an object lies outside of every one.
bool may_read_objects();

/// Keys are `prefix` and then the record's id.
std::shared_ptr<const FileReader> objects_below(Store store, std::string prefix);

/// Lets records whose id is a URL (s3://..., swift://...) be read from there, and the others as before.
void open_urls(Listing &listing);

/// An object from its start to its end, with some parts on their way ahead. Throws as ObjectStore does, and
/// SystemError when there is no such object.
std::unique_ptr<ByteStream> object_stream(Store store, const std::string &key);

/// What `spec`, a URL, means as a data set.
Listing list_objects(const std::string &spec, const SourceOptions &options);

} // namespace tl::data
