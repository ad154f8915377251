find_package(CURL 7.85 REQUIRED)  # http_exchange.cc
target_link_libraries(anabranch_mcp PRIVATE CURL::libcurl)
target_compile_definitions(anabranch_mcp PRIVATE ANABRANCH_VERSION="${PROJECT_VERSION}")
