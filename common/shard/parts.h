// The parts of a shard folder that several writers fill (partition.h), put together.
#pragma once

#include "shard/folder.h"
#include "shard/folder_files.h"

namespace tl::shard {

/// After the part of `own` was written: if all parts are there, of the same data set, writes the index of the
/// folder, with all records in their order. Parts of another state of the data set count as missing. Throws
/// Error if the parts contradict each other: other features, or records too few or too many.
PartReport join_parts(FolderFiles &folder, const FolderIndex &own);

/// Leaves of `index` what that part holds.
void keep_part(FolderIndex &index, const Partition &part);

/// Before the folder is written as a whole. The caller has its lock.
void remove_parts(FolderFiles &folder);

/// For a folder without an index: throws Error if that is because parts are missing.
void refuse_missing_parts(const FolderFiles &folder);

} // namespace tl::shard
