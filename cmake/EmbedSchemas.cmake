# Compiles schemas/*.schema.json into the library, so that an installed program needs no files.
function(tl_embed_schemas output)
  file(GLOB schemas CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/schemas/*.schema.json)
  set(entries "")
  foreach(schema IN LISTS schemas)
    file(READ ${schema} text)
    get_filename_component(name ${schema} NAME)
    string(REPLACE ".schema.json" "" name ${name})
    string(APPEND entries "    {\"${name}\", R\"schema(${text})schema\"},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${schema})
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"// Generated from schemas/ by cmake/EmbedSchemas.cmake.
#include <cstddef>
#include <string_view>
namespace tl::json {
struct EmbeddedSchema { std::string_view name; std::string_view text; };
extern const EmbeddedSchema kEmbeddedSchemas[];
extern const std::size_t kEmbeddedSchemaCount;
const EmbeddedSchema kEmbeddedSchemas[] = {
@entries@};
const std::size_t kEmbeddedSchemaCount = sizeof kEmbeddedSchemas / sizeof kEmbeddedSchemas[0];
} // namespace tl::json
")
endfunction()
