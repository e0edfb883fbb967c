#pragma once

#include "kvrail/kv_layout.h"
#include "wire/control_generated.h"
#include "wire/field_reader.h"

namespace kvrail {

flatbuffers::Offset<wire::Layout> write_layout(flatbuffers::FlatBufferBuilder& builder,
                                               const KvLayout& layout);

// `layout` may be null, as any table in it: the reader says what is missing.
KvLayout read_layout(FieldReader& reader, const wire::Layout* layout);

}  // namespace kvrail
