target_compile_definitions(anabranch PRIVATE ANABRANCH_VERSION="${PROJECT_VERSION}")
