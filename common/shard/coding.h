// Rows as they are computed <-> rows as they are written.
#pragma once

#include "codec/codec.h"
#include "codec/frames.h"
#include "shard/shard.h"

#include <vector>

namespace tl::shard {

/// What rows of `computed` become under a codec: f32 values become bf16 or i8, others stay. Values that
/// are u8 pixels already have the codec "u8". Throws Error if the codec is for other values.
ShardMeta coded(ShardMeta computed, codec::Codec codec);

/// Rows of `computed`'s form, written as `meta` says: coded(computed, ...). Shares the memory of values
/// that stay. Throws Error naming the record whose values int8 cannot express.
Shard encode(const ShardMeta &meta, const Shard &computed);

/// The rows without compression; the same if there is none. Throws FormatError for a damaged frame.
Shard unpack(const Shard &rows);

/// The values as they were computed, to within the codec's error, from uncompressed rows. Pixels stay
/// pixels. Shares the memory of values that stay.
std::vector<Tensor> decode(const ShardMeta &meta, const Shard &rows);
/// The type of a value once it is decoded.
DType decoded_dtype(const ShardMeta &meta, const ValueInfo &value);

/// For the frames of compressed rows: each value, followed by its scales if it has some.
codec::FrameCoder frame_coder(const ShardMeta &meta);

} // namespace tl::shard
