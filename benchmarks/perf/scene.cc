#include "perf/scene.h"

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail::perf {

Json to_json(const Scene& scene) {
  return {{"kind", static_cast<int>(scene.kind)}, {"layout", to_string(scene.layout)},
          {"page_bytes", scene.page_bytes},       {"pages", scene.pages},
          {"list_pages", scene.list_pages},       {"contenders", scene.contenders}};
}

Scene scene_from_json(const Json& json, std::uint64_t max_memory_bytes) {
  Scene scene;
  try {
    const int kind = json.at("kind");
    if (kind < 0 || kind > static_cast<int>(Scene::Pages::kSignals)) {
      throw Error(ErrorCode::kMalformed, "the source asks for pages of an unknown kind");
    }
    scene.kind = static_cast<Scene::Pages>(kind);
    scene.layout = parse_layout(json.at("layout").get<std::string>());
    json.at("page_bytes").get_to(scene.page_bytes);
    json.at("pages").get_to(scene.pages);
    json.at("list_pages").get_to(scene.list_pages);
    json.at("contenders").get_to(scene.contenders);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kMalformed, fmt::format("what the source opens: {}", error.what()));
  }
  if (scene.kind == Scene::Pages::kPlain &&
      (scene.page_bytes == 0 || scene.pages == 0 || scene.list_pages == 0 ||
       scene.page_bytes % 8 != 0 || scene.pages > max_memory_bytes / scene.page_bytes)) {
    throw Error(ErrorCode::kMalformed, "the source asks for pages out of range");
  }
  return scene;
}

}  // namespace kvrail::perf
