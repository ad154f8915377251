target_compile_definitions(anabranch_cli PRIVATE ANABRANCH_VERSION="${PROJECT_VERSION}")
