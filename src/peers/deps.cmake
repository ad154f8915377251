target_compile_definitions(anabranch_peers PRIVATE ANABRANCH_VERSION="${PROJECT_VERSION}")  # lookup.cc
