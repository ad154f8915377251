find_package(CURL 7.85 REQUIRED)  # http_transport.cc
target_link_libraries(anabranch_mcp PRIVATE CURL::libcurl)
