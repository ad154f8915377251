target_compile_definitions(anabranch_mcp PRIVATE ANABRANCH_VERSION="${PROJECT_VERSION}")
